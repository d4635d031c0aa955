//! What the page makes of Markdown: nothing that runs, and the same in pieces as at once.

use serde_json::json;

use super::browser;
use super::echo::Echo;

#[test]
fn nothing_that_a_model_writes_runs_or_loads() {
    let Some(mut browser) = browser() else { return };
    let server = Echo::start();
    browser.open(&server.url());
    browser.value("window.alert = () => { window.ran = true; }");
    let hostile = [
        "<img src=x onerror=alert(1)><script>alert(1)</script><svg/onload=alert(1)>",
        "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](&#106;avascript:alert(1))",
        "[d](data:text/html,<script>alert(1)</script>)",
        "[e](  javascript:alert(1)) [f](java\\script:alert(1)) <javascript:alert(1)>",
        "[g](vbscript:x) [h](//evil.example/x)",
        "![pixel](https://evil.example/p.png) ![x](x\"onerror=\"alert(1))",
        "[i](https://good.example/\"onmouseover=\"alert(1))",
        "```\"><img src=x onerror=alert(1)>\n</code><script>alert(1)</script>\n```",
        "| <b>x</b> | `<i>` |\n|---|---|\n| <iframe src=javascript:alert(1)> | x |",
        "<a href=\"javascript:alert(1)\">x</a> <style>*{display:none}</style> &lt;img src=x onerror=alert(1)&gt;",
        "<think><img src=x onerror=alert(1)></think><base href=//evil.example>",
    ];
    for text in hostile {
        browser.say(text);
        browser.rest();
    }
    let count = hostile.len() as u64;
    assert_eq!(browser.count(".assistant"), count);
    for tag in [
        "script",
        "img",
        "iframe",
        "style",
        "object",
        "embed",
        "base",
        "svg:not(.icon)",
        "form",
    ] {
        assert_eq!(browser.count(&format!("#messages {tag}")), 0, "{tag}");
    }
    let attributes = "[...document.querySelectorAll('#messages *')].flatMap((one) => [...one.attributes]) \
                      .filter(({ name }) => name.startsWith('on') || name === 'src' || name === 'style').length";
    assert_eq!(browser.value(attributes), json!(0));
    let links = browser.value(
        "[...document.querySelectorAll('#messages a')].map((a) => [a.href, a.rel, a.target])",
    );
    let links = links.as_array().expect("a list").clone();
    assert!(!links.is_empty());
    for link in &links {
        let address = link[0].as_str().expect("a text");
        assert!(address.starts_with("https://"), "{link}");
        assert_eq!(
            (&link[1], &link[2]),
            (&json!("noopener noreferrer"), &json!("_blank"))
        );
    }
    assert!(browser.last(".thought").contains("<img src=x"));
    assert!(!browser.holds("window.ran"));
    let elsewhere = "performance.getEntriesByType('resource').map((one) => one.name) \
                     .filter((one) => !one.startsWith(location.origin))";
    let loaded = browser.value(elsewhere);
    assert_eq!(loaded, json!([]));
}

#[test]
fn markdown_is_the_same_in_pieces_and_at_once() {
    let Some(mut browser) = browser() else { return };
    let server = Echo::start();
    browser.open(&server.url());
    let whole = "# T *i*\n\nA **b** `c` ~~d~~ _e_ https://a.b/c_d.\nline\n\n1. x\n   - y\n   - **z**\n\n2. w\n\n\
                 | a | b |\n|--|:-:|\n| 1 | `|` |\n\n> q\n> - r\n\n~~~rust\nfn f() {\n\n}\n~~~\n\n\
                 $$\nx_1 * y_2\n$$\n- [x] t\n\nh\n---\n\\(a_1*b*\\) and $c_1$ costs $5\n\n***\n\
                 \tcode\n[l](https://e.f \"t\")";
    let code = format!(
        "import('./page/markdown.js').then(({{ Markdown }}) => {{ \
           const whole = {}; \
           const shown = (step) => {{ \
             const root = document.createElement('div'); \
             const markdown = new Markdown(root); \
             for (let end = 0; end < whole.length; end += step) markdown.show(whole.slice(0, end), true); \
             markdown.show(whole, false); \
             return root.outerHTML; \
           }}; \
           return [1e6, 1, 2, 7].map(shown); \
         }})",
        json!(whole)
    );
    let found = browser.value(&code);
    let found = found.as_array().expect("a list");
    for other in &found[1..] {
        assert_eq!(other, &found[0]);
    }
    let html = found[0].as_str().expect("a text");
    for part in [
        "<h1>T <em>i</em></h1>",
        "<strong>b</strong> <code>c</code> <del>d</del> <em>e</em>",
        ">https://a.b/c_d</a>.<br>line",
        "<li><p>x</p><ul><li>y</li><li><strong>z</strong></li></ul></li>",
        "<th class=\"middle\">b</th>",
        "<td class=\"middle\"><code>|</code></td>",
        "<blockquote><p>q</p><ul><li>r</li></ul></blockquote>",
        "<span>rust</span>",
        "fn f() {\n\n}</code>",
        "<div class=\"math\">$$\nx_1 * y_2\n$$</div>",
        "<h2>h</h2>",
        "<span class=\"math\">\\(a_1*b*\\)</span> and <span class=\"math\">$c_1$</span> costs $5",
        "<hr>",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    // What is open at the end is shown as it will be, and marks that mean nothing yet are not shown.
    let cut = json!([
        "a **b", "a **", "a `c", "[l](htt", "- ", "```js\nx", "| a | b", "x\n-"
    ]);
    let code = format!(
        "import('./page/markdown.js').then(({{ Markdown }}) => {cut}.map((text) => {{ \
           const root = document.createElement('div'); \
           new Markdown(root).show(text, true); \
           return root.textContent; \
         }}))"
    );
    let expected = json!(["a b", "a ", "a c", "l", "", "jsx", "ab", "x"]);
    assert_eq!(browser.value(&code), expected);
}

#[test]
fn texts_that_are_made_to_take_long_are_shown() {
    let Some(mut browser) = browser() else { return };
    let server = Echo::start();
    browser.open(&server.url());
    let spaces = " ".repeat(60_000);
    let hostile = [
        "[".repeat(60_000),
        "*a **b ".repeat(8_000),
        "`a``b```c".repeat(6_000),
        "[a](".repeat(15_000),
        format!("[a]({spaces}x"),
        format!("# a{spaces}x"),
        format!("a|b\n--{spaces}x"),
        format!("*{spaces}*{spaces}x"),
        format!("http://a{}", ")".repeat(60_000)),
        ">".repeat(60_000),
        format!("{}x", "- ".repeat(30_000)),
        "\\[ a\n".repeat(12_000),
        "```\n".repeat(15_000),
    ];
    let code = format!(
        "import('./page/markdown.js').then(({{ Markdown }}) => {}.map((text) => {{ \
           const root = document.createElement('div'); \
           const markdown = new Markdown(root); \
           markdown.show(text, true); \
           markdown.show(text, false); \
           return root.textContent.length > 0; \
         }}))",
        json!(hostile)
    );
    // A browser that takes longer than the protocol's calls may take fails this test.
    assert_eq!(browser.value(&code), json!(vec![true; hostile.len()]));
}
