//! A receipt of the server, opened and checked from the page.

use hlx_receipt::SigningKey;
use hlx_serve::{ReceiptSettings, Settings};
use hlx_train::engine::Limits;

use super::browser;
use super::common::Server;

#[test]
fn a_receipt_is_opened_and_checked_by_the_server() {
    let Some(mut browser) = browser() else { return };
    let settings = Settings {
        receipts: Some(ReceiptSettings {
            key: SigningKey::of_seed(&[3; 32]),
            folder: None,
        }),
        ..Settings::default()
    };
    let server = Server::start(Limits::default(), settings);
    browser.open(&format!("http://{}/", server.address));
    browser.wait("!document.getElementById('receipts').closest('.field').hidden");
    browser.click("#receipts");
    browser.value(
        "{ const input = document.getElementById('max_tokens'); input.value = '24'; \
         input.dispatchEvent(new Event('change')); }",
    );
    browser.say("Hello");
    browser.rest();
    // It outlives the page.
    browser.reload();
    browser.click(".show-receipt");
    let fields = browser.last("dialog .receipt");
    for name in [
        "body.model.weights sha256",
        "body.logits sha256",
        "signature.public key",
    ] {
        assert!(fields.contains(name), "{name} in {fields}");
    }
    browser.click("dialog .row button");
    browser.wait("document.querySelector('.checks > p.right, .checks > p.wrong')");
    assert!(
        browser.last(".checks").contains("recomputed: "),
        "{}",
        browser.last(".checks")
    );
    assert_eq!(browser.count(".checks li.wrong"), 0);
    assert!(browser.count(".checks li.right") >= 3);
    browser.press("Escape");
    // One that has been changed is found out.
    let change = "(async () => { \
        const { Store } = await import('./page/store.js'); \
        const store = await Store.open(() => {}); \
        const [one] = await store.conversations(); \
        const answer = (await store.messages(one.id)).find((message) => message.receipt); \
        answer.receipt.body.token_ids[0] ^= 1; \
        await store.keep(one, [answer]); })()";
    browser.value(change);
    browser.reload();
    browser.click(".show-receipt");
    browser.click("dialog .row button");
    browser.wait("document.querySelector('.checks > p.wrong')");
    assert!(browser.count(".checks li.wrong") > 0);
}
