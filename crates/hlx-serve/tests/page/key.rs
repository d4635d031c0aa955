//! A server with API keys: the page asks its user for one, and stores it only if the user wants that.

use hlx_serve::Settings;
use hlx_train::engine::Limits;
use serde_json::json;

use super::browser;
use super::common::Server;

#[test]
fn a_key_is_asked_for_and_forgotten_unless_it_is_to_be_kept() {
    let Some(mut browser) = browser() else { return };
    let settings = Settings {
        api_keys: vec!["open sesame".to_owned()],
        ..Settings::default()
    };
    let server = Server::start(Limits::default(), settings);
    let url = format!("http://{}/", server.address);
    browser.call("Page.navigate", json!({"url": url}));
    browser.wait("document.activeElement?.id === 'key'");
    assert!(browser.last("#notices").contains("an API key is needed"));
    browser.write("open sesame");
    browser.press("Enter");
    browser.wait("document.querySelectorAll('.picker option').length === 2");
    browser.say("Hello");
    browser.rest();
    assert_eq!(browser.count(".trouble"), 0);
    let stored = "JSON.stringify({ ...localStorage }).includes('sesame')";
    assert_eq!(browser.value(stored), json!(false));
    browser.value("[...document.querySelectorAll('.choice')].find((one) => one.textContent.includes('Keep')).click()");
    assert_eq!(browser.value(stored), json!(true));
    browser.reload();
    browser.wait("document.querySelectorAll('.picker option').length === 2");
}
