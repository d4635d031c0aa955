//! The page, in a Chromium without a window where one is installed.
#![cfg(unix)]

#[path = "page/browser.rs"]
mod browser;
mod common;
#[path = "page/echo.rs"]
mod echo;
#[path = "page/key.rs"]
mod key;
#[path = "page/markdown.rs"]
mod markdown;
#[path = "page/receipt.rs"]
mod receipt;

use browser::Browser;
use common::Server;
use echo::Echo;
use hlx_core::testing::left_out;
use hlx_serve::Settings;
use hlx_train::engine::Limits;
use serde_json::{Value, json};

/// A browser, or a line in the report of why there is none.
fn browser() -> Option<Browser> {
    let program = browser::installed();
    if program.is_none() {
        left_out(
            "the page of `hlx serve` in a browser",
            "Chromium is not installed",
        );
    }
    program.map(Browser::start)
}

#[test]
fn the_page_is_served_with_its_tag_and_its_policy() {
    let settings = Settings {
        api_keys: vec!["k".to_owned()],
        ..Settings::default()
    };
    let server = Server::start(Limits::default(), settings);
    let first = server.get("/");
    assert_eq!(first.status, 200, "the page needs no key");
    assert!(first.body.starts_with("<!doctype html>"));
    let line = |head: &str, name: &str| {
        let found = head
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")));
        found.unwrap_or_default().to_owned()
    };
    assert_eq!(
        line(&first.head, "content-type"),
        "text/html; charset=utf-8"
    );
    let policy = line(&first.head, "content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(
            policy.split("; ").any(|one| one == part),
            "{part}: {policy}"
        );
    }
    let tag = line(&first.head, "etag");
    let ask = |path: &str, tag: &str| {
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: hlx\r\nconnection: close\r\nif-none-match: {tag}\r\n\r\n"
        );
        server.send(head.as_bytes())
    };
    let again = ask("/", &format!("\"other\", W/{tag}"));
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(ask("/page/main.js", &tag).status, 200);
    assert_eq!(
        line(&server.get("/page/main.js").head, "content-type"),
        "text/javascript; charset=utf-8"
    );
    for path in ["/page/", "/page/x.js", "/page/..%2fpage.rs", "/page/a/b"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

#[test]
fn the_page_talks_with_the_server() {
    let Some(mut browser) = browser() else { return };
    let server = Server::start(Limits::default(), Settings::default());
    browser.open(&format!("http://{}/", server.address));
    browser.value("document.querySelector('[aria-controls=settings]').click()");
    let set = |browser: &mut Browser, id: &str, value: &str| {
        browser.value(&format!(
            "{{ const input = document.getElementById('{id}'); input.value = '{value}'; \
             input.dispatchEvent(new Event('change')); }}"
        ));
    };
    set(&mut browser, "max_tokens", "24");
    set(&mut browser, "temperature", "0.5");
    browser.click("input[value=fixed]");
    set(&mut browser, "seed", "18446744073709551615");
    browser.say("Hello");
    browser.rest();
    let body = json!({
        "model": "small", "messages": [{"role": "user", "content": "Hello"}], "seed": u64::MAX, "temperature": 0.5,
        "max_tokens": 24,
    });
    let expected = server.answer("/v1/chat/completions", &body);
    let expected = expected["choices"][0]["message"]["content"]
        .as_str()
        .expect("a text");
    // The message itself is looked at: Markdown shows some of these characters otherwise.
    let kept = "import('./page/store.js').then(async ({ Store }) => { const store = await Store.open(() => {}); \
                const [one] = await store.conversations(); return store.messages(one.id); })";
    let messages = browser.value(kept);
    let answers: Vec<&Value> = messages
        .as_array()
        .expect("a list")
        .iter()
        .filter(|one| one["role"] == "assistant")
        .collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["content"], expected);
    assert_eq!(answers[0]["seed"], "18446744073709551615");
    assert!(browser.last(".facts").contains("seed 18446744073709551615"));
    browser.click(".show-tokens");
    browser.wait("document.querySelector('.tokens')");
    assert!(
        browser.last(".tokens .hint").contains("the same text"),
        "{}",
        browser.last(".tokens")
    );
    // A model without a chat template continues the text.
    browser.value(
        "{ const picker = document.querySelector('.picker'); picker.value = 'plain'; \
                   picker.dispatchEvent(new Event('change')); }",
    );
    browser.say("More");
    browser.rest();
    assert_eq!(
        (browser.count(".assistant"), browser.count(".trouble")),
        (2, 0)
    );
    assert!(
        browser
            .last("#notices")
            .contains("plain has no chat template")
    );
    browser.value("[...document.querySelectorAll('.show-tokens')].at(-1).click()");
    browser.wait("document.querySelectorAll('.tokens').length === 2");
    assert!(browser.last(".tokens .hint").contains("the same text"));
}

#[test]
fn a_message_is_sent_stopped_edited_and_answered_anew() {
    let Some(mut browser) = browser() else { return };
    let server = Echo::start();
    browser.open(&server.url());
    assert_eq!(browser.text("document.activeElement.id"), "message");
    browser.say("One **bold** word");
    browser.rest();
    assert_eq!(browser.last(".assistant .prose"), "One bold word");
    assert_eq!(browser.last(".assistant .prose strong"), "bold");
    browser.wait("document.getElementById('finished').textContent.includes('One **bold** word')");
    // Answered anew, with a seed of its own.
    browser.click("[aria-label='Answer anew']");
    browser.rest();
    assert_eq!(browser.last(".branches span"), "2/2");
    assert!(browser.last(".facts").contains("seed 101"));
    browser.click("[aria-label='Earlier answer']");
    browser.wait("document.querySelector('.branches span').textContent === '1/2'");
    assert!(browser.last(".facts").contains("seed 100"));
    // Stopped: what came stays.
    browser.say(&format!("slow {}", "word ".repeat(200)));
    browser.wait("[...document.querySelectorAll('.prose')].at(-1).textContent.length > 12");
    assert_eq!(
        browser.text("document.querySelector('.growing').getAttribute('aria-busy')"),
        "true"
    );
    browser.press("Escape");
    browser.rest();
    assert!(browser.last(".assistant .hint").contains("Stopped"));
    assert!(browser.last(".prose").starts_with("slow word"));
    // Edited from the keyboard: the conversation goes on from there, and the branch before stays.
    browser.press("ArrowUp");
    browser.wait("document.activeElement?.matches('.editor textarea')");
    browser.value("document.activeElement.select()");
    browser.write("Other words");
    browser.press("Enter");
    browser.rest();
    assert_eq!(browser.last(".assistant .prose"), "Other words");
    assert_eq!(browser.count(".message"), 4);
    let asked = server.asked();
    let last = asked.last().expect("was asked");
    let said: Vec<&str> = last["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["content"].as_str())
        .collect();
    assert_eq!(
        said,
        ["One **bold** word", "One **bold** word", "Other words"]
    );
    browser.click(".user [aria-label='Earlier version']");
    browser.wait(
        "[...document.querySelectorAll('.prose')].at(-1).textContent.startsWith('slow word')",
    );
    // A page that is loaded again has all of it.
    browser.reload();
    browser.wait("document.querySelectorAll('.message').length === 4");
    assert!(browser.last(".prose").starts_with("slow word"));
    assert_eq!(browser.last(".title"), "One **bold** word");
    browser.wait("document.querySelectorAll('#conversations li').length === 1");
}

#[test]
fn conversations_are_renamed_deleted_brought_back_and_moved_by_files() {
    let Some(mut browser) = browser() else { return };
    let server = Echo::start();
    browser.open(&server.url());
    browser.say("First");
    browser.rest();
    browser.click(".new");
    browser.wait("document.querySelector('.welcome')");
    browser.say("Second");
    browser.rest();
    browser.wait("document.querySelectorAll('#conversations li').length === 2");
    browser.click("[aria-label='Rename: First']");
    browser.value("document.activeElement.select()");
    browser.write("Renamed");
    browser.press("Enter");
    browser.wait("document.querySelector(\"[aria-label='Rename: Renamed']\")");
    let store = "const { Store } = await import('./page/store.js'); const store = await Store.open(() => {});";
    let run = |browser: &mut Browser, code: &str| {
        browser.value(&format!("(async () => {{ {store} {code} }})()"))
    };
    let file = run(&mut browser, "return store.exported();");
    browser.click("[aria-label='Delete: Renamed']");
    browser.wait("document.querySelectorAll('#conversations li').length === 1");
    browser.click("#notices .plain");
    browser.wait("document.querySelector('.title').textContent === 'Renamed'");
    assert_eq!(browser.last(".prose"), "First");
    // A file brings its conversations under new ids; a file that is none says so.
    assert_eq!(
        run(&mut browser, &format!("return store.imported({file});")),
        json!(2)
    );
    browser.wait("document.querySelectorAll('#conversations li').length === 4");
    for (text, expected) in [
        ("{", "The file is no JSON"),
        ("{}", "The file has the format undefined"),
        (
            "{\"format\": \"hlx-conversations\", \"version\": 9}",
            "The file has version 9, expected 1.",
        ),
        (
            "{\"format\": \"hlx-conversations\", \"version\": 1}",
            "The file has no list of conversations.",
        ),
        (
            "{\"format\": \"hlx-conversations\", \"version\": 1, \
             \"conversations\": [{\"messages\": [{\"role\": \"x\"}]}]}",
            "conversations[0].messages[0] has no role",
        ),
    ] {
        let code = format!(
            "try {{ await store.imported({}); return ''; }} catch (error) {{ return error.message; }}",
            json!(text)
        );
        let found = run(&mut browser, &code);
        assert!(
            found
                .as_str()
                .is_some_and(|line| line.starts_with(expected)),
            "{found}"
        );
    }
    // A browser that is full says so, and the page goes on.
    browser.value("IDBObjectStore.prototype.put = () => { throw new DOMException('x', 'QuotaExceededError'); }");
    browser.say("Third");
    browser.rest();
    browser.wait("document.getElementById('notices').textContent.includes(\"the browser's storage is full\")");
    assert_eq!(browser.last(".prose"), "Third");
}

#[test]
fn errors_are_a_line_with_a_way_to_try_again() {
    let Some(mut browser) = browser() else { return };
    let server = Echo::start();
    browser.open(&server.url());
    browser.say("busy for now");
    browser.rest_of_trouble();
    assert!(
        browser
            .last(".trouble")
            .contains("8 requests wait, and no more may")
    );
    browser.click(".trouble button");
    browser.rest();
    assert_eq!(
        (browser.last(".prose").as_str(), browser.count(".assistant")),
        ("busy for now", 1)
    );
    // A server that goes away in the middle: what came stays.
    browser.say("gone in the middle of its words");
    browser.rest_of_trouble();
    assert!(browser.last(".trouble").contains("was lost in the middle"));
    assert_eq!(browser.last(".prose"), "gone in the mid");
    drop(server);
    browser.say("Is somebody there?");
    browser.rest_of_trouble();
    assert!(
        browser
            .last(".trouble")
            .contains("The server does not answer")
    );
}

#[test]
fn receipts_and_tokens_are_shown() {
    let Some(mut browser) = browser() else { return };
    let server = Echo::start();
    browser.open(&server.url());
    browser.wait("!document.getElementById('receipts').closest('.field').hidden");
    browser.click("#receipts");
    browser.say("With a receipt");
    browser.rest();
    browser.click(".show-receipt");
    assert!(browser.last("dialog .receipt").contains("<b>c2ln</b>"));
    browser.click("dialog .row button");
    browser.wait("document.querySelectorAll('.checks li').length === 2");
    assert!(browser.last(".checks > p").contains("of another model"));
    assert_eq!(browser.count(".checks li.wrong"), 1);
    browser.press("Escape");
    browser.wait("!document.querySelector('dialog')");
    browser.click(".show-tokens");
    browser.wait("document.querySelectorAll('.token-text .token').length === 5");
    browser.value("document.querySelector('.token-text .token').focus()");
    browser.press("ArrowRight");
    browser.wait("document.activeElement?.dataset.at === '1'");
    assert!(browser.last(".alternatives").contains("<i>"));
    assert_eq!(
        server.asked().last().expect("was asked")["seed"],
        json!(100)
    );
}

#[test]
fn the_page_fits_a_phone_and_the_dark() {
    let Some(mut browser) = browser() else { return };
    let server = Echo::start();
    browser.resize(360, 740, true);
    let theme =
        |value: &str| json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
    browser.call("Emulation.setEmulatedMedia", theme("dark"));
    browser.open(&server.url());
    browser.say(&format!(
        "| a | b | c |\n|---|---|---|\n| {0} | {0} | {0} |\n\n```\n{1}\n```\n{1}",
        "wide words ".repeat(6),
        "x".repeat(300)
    ));
    browser.rest();
    assert_eq!(
        browser.value("document.documentElement.scrollWidth"),
        json!(360)
    );
    assert!(browser.holds("document.getElementById('thread').scrollWidth <= 360"));
    assert!(browser.holds("document.getElementById('conversations').hidden"));
    browser.click("[aria-controls=conversations]");
    assert!(browser.holds("document.getElementById('main').inert"));
    assert!(
        browser.holds("document.getElementById('conversations').contains(document.activeElement)")
    );
    browser.press("Escape");
    browser.wait(
        "document.getElementById('conversations').hidden && !document.getElementById('main').inert",
    );
    let brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3) \
                      .reduce((a, b) => a + Number(b), 0)";
    assert!(
        browser
            .value(brightness)
            .as_f64()
            .is_some_and(|sum| sum < 200.0)
    );
    browser.click("[name=theme][value=light]");
    assert_eq!(browser.value(brightness), json!(765));
    browser.reload();
    assert_eq!(browser.value(brightness), json!(765));
    // Every control has a name.
    let nameless = "[...document.querySelectorAll('button, input, select, textarea')] \
                    .filter((one) => one.type !== 'file' && !one.getAttribute('aria-label')) \
                    .filter((one) => !one.labels?.length && !one.textContent.trim()) \
                    .map((one) => one.outerHTML)";
    assert_eq!(browser.value(nameless), json!([]));
}
