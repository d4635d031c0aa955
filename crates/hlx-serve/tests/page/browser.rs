//! A Chromium without a window, driven by the Chrome DevTools Protocol over its pipe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the browser, or what it shows, may take.
const LONGEST: Duration = Duration::from_secs(30);
/// The pipe is at the descriptors 3 and 4 (`--remote-debugging-pipe`).
const START: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The name of an installed Chromium.
pub fn installed() -> Option<&'static str> {
    NAMES.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|version| version.status.success())
    })
}

/// A page of a browser that ends with its value.
pub struct Browser {
    child: Child,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    calls: u64,
    profile: PathBuf,
    /// Exceptions of scripts, and what the browser refuses to a page.
    pub faults: Vec<String>,
}

impl Browser {
    pub fn start(program: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let profile =
            std::env::temp_dir().join(format!("hlx-page-{}-{number}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", START, program]);
        // Its sandbox needs rights that containers have not; it shows the project's own page alone.
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu"]);
        command.args(["--no-first-run", "--disable-dev-shm-usage"]);
        command.arg("--remote-debugging-pipe");
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.arg("about:blank");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = child.stdout.take().expect("a pipe");
        let (told, messages) = channel();
        std::thread::spawn(move || {
            let parts = BufReader::new(stdout).split(0);
            let read = parts.map_while(|part| serde_json::from_slice(&part.ok()?).ok());
            for message in read {
                if told.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            stdin,
            messages,
            session: None,
            calls: 0,
            profile,
            faults: Vec::new(),
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let targets = self.call("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().expect("a list").clone();
        let page = targets.iter().find(|target| target["type"] == "page");
        let id = &page.expect("a page")["targetId"];
        let found = self.call(
            "Target.attachToTarget",
            json!({"targetId": id, "flatten": true}),
        );
        self.session = found["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.resize(1280, 800, false);
    }

    /// Calls a method of the protocol, and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.stdin.write_all(&bytes).expect("is sent");
        loop {
            let found = self.messages.recv_timeout(LONGEST).expect("answers");
            if found["id"] == json!(self.calls) {
                assert!(found["error"].is_null(), "{method}: {found}");
                return found["result"].clone();
            }
            self.event(&found);
        }
    }

    fn event(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.faults.push(parameters["exceptionDetails"].to_string());
            }
            // What a server refuses is of the source `network`, and is tested.
            Some("Log.entryAdded")
                if parameters["entry"]["level"] == "error"
                    && parameters["entry"]["source"] != "network" =>
            {
                self.faults.push(parameters["entry"].to_string());
            }
            _ => {}
        }
    }

    /// The value of an expression, or what its promise resolves to.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let found = self.call("Runtime.evaluate", parameters);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    pub fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    pub fn holds(&mut self, expression: &str) -> bool {
        self.value(&format!("Boolean({expression})")) == json!(true)
    }

    /// Waits until an expression holds.
    pub fn wait(&mut self, expression: &str) {
        let began = Instant::now();
        while !self.holds(expression) {
            if began.elapsed() > LONGEST {
                let shown = self.text("document.body.innerText");
                panic!("waits for {expression}; faults {:?}; {shown}", self.faults);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Gives the page a size in CSS pixels.
    pub fn resize(&mut self, width: u32, height: u32, is_mobile: bool) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_mobile});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        self.wait("document.readyState === 'complete' && document.querySelector('.picker option')");
    }

    pub fn reload(&mut self) {
        self.value("window.isOld = true");
        self.call("Page.reload", json!({}));
        self.wait("!window.isOld && document.readyState === 'complete' && document.querySelector('.picker option')");
    }

    /// Types into what has the focus.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses a key of this name.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            _ => 0,
        };
        let mut event =
            json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if key == "Enter" {
            event["text"] = json!("\r");
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Presses the button of a selector.
    pub fn click(&mut self, selector: &str) {
        let quoted = json!(selector);
        self.wait(&format!("document.querySelector({quoted})"));
        self.value(&format!("document.querySelector({quoted}).click()"));
    }

    /// Sends a message as somebody at the keyboard does.
    pub fn say(&mut self, text: &str) {
        self.value("document.getElementById('message').focus()");
        self.write(text);
        self.press("Enter");
    }

    /// Waits until no answer grows.
    pub fn rest(&mut self) {
        self.wait("!document.querySelector('.growing') && document.querySelector('.assistant .tools button')");
    }

    /// Waits until an answer has failed.
    pub fn rest_of_trouble(&mut self) {
        self.wait("!document.querySelector('.growing') && document.querySelector('.trouble')");
    }

    /// The text of the last element of a selector.
    pub fn last(&mut self, selector: &str) -> String {
        let quoted = json!(selector);
        self.text(&format!(
            "[...document.querySelectorAll({quoted})].at(-1)?.textContent ?? ''"
        ))
    }

    pub fn count(&mut self, selector: &str) -> u64 {
        let quoted = json!(selector);
        let found = self.value(&format!("document.querySelectorAll({quoted}).length"));
        found.as_u64().expect("a number")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A browser that has crashed is gone already.
        let _ = self
            .stdin
            .write_all(b"{\"id\": 0, \"method\": \"Browser.close\"}\0");
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = std::fs::remove_dir_all(&self.profile);
        if !std::thread::panicking() {
            assert!(self.faults.is_empty(), "{:#?}", self.faults);
        }
    }
}
