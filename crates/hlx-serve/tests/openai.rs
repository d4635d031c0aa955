//! OpenAI's interface: bodies, streams, and what is refused.

mod common;

use common::{Server, text_model};
use hlx_serve::Settings;
use hlx_train::engine::Limits;
use hlx_train::generate::TokenGeneration;
use hlx_train::sample::Sampling;
use serde_json::{Value, json};

fn start() -> Server {
    Server::start(Limits::default(), Settings::default())
}

#[test]
fn a_completion_is_the_text_that_generate_writes() {
    let server = start();
    let sampling = Sampling {
        temperature: 1.0,
        seed: 12,
        ..Sampling::default()
    };
    let text = text_model(&hlx_core::testing::cpu().expect("opens"));
    let options = TokenGeneration {
        n_texts: 2,
        ..TokenGeneration::new(30, sampling, text.end_tokens.clone())
    };
    let prompts = ["the river", "light"];
    let ids = prompts.map(|prompt| text.encode(prompt).expect("encodes"));
    let expected = text
        .write(&ids, &options, &[], &mut |_, _| Ok(()))
        .expect("writes");
    let body = json!({"model": "small", "prompt": prompts, "n": 2, "seed": 12, "max_tokens": 30});
    let found = server.answer("/v1/completions", &body);
    let texts: Vec<&str> = (0..4)
        .filter_map(|at| found["choices"][at]["text"].as_str())
        .collect();
    assert_eq!(texts, expected);
    let by_ids = json!({"model": "small", "prompt": ids, "n": 2, "seed": 12, "max_tokens": 30});
    let by_ids = server.answer("/v1/completions", &by_ids);
    assert_eq!(by_ids["choices"], found["choices"]);
    assert_eq!(found["object"], "text_completion");
    assert_eq!(found["seed"], 12);
    assert_eq!(found["usage"]["prompt_tokens"], 9 + 5);
    let drawn = &found["usage"]["completion_tokens"];
    assert_eq!(
        found["usage"]["total_tokens"].as_u64(),
        drawn.as_u64().map(|n| n + 14)
    );
    // A seed that is left out is drawn and returned, and gives the text again.
    let mut body = json!({"model": "small", "prompt": "light", "max_tokens": 30});
    let first = server.answer("/v1/completions", &body);
    body["seed"] = first["seed"].clone();
    let again = server.answer("/v1/completions", &body);
    assert_eq!(again["choices"], first["choices"]);
    let other = server.answer(
        "/v1/completions",
        &json!({"model": "small", "prompt": "light"}),
    );
    assert_ne!(other["seed"], first["seed"]);
}

#[test]
fn a_stream_is_the_answer_in_pieces() {
    let server = start();
    let chat = json!({
        "model": "small", "messages": [
            {"role": "developer", "content": "be kind"},
            {"role": "user", "content": [{"type": "text", "text": "li"}, {"type": "text", "text": "ght"}]},
        ],
        "seed": 3, "n": 2, "max_completion_tokens": 40, "logprobs": true, "top_logprobs": 2, "logit_digests": true,
    });
    let whole = server.answer("/v1/chat/completions", &chat);
    let mut streamed = chat.clone();
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({"include_usage": true});
    let chunks = server.stream("/v1/chat/completions", &streamed);
    let (last, chunks) = chunks.split_last().expect("chunks");
    assert_eq!(
        (&last["choices"], &last["usage"]["completion_tokens"]),
        (&json!([]), &whole["usage"]["completion_tokens"])
    );
    for index in 0..2 {
        let mine: Vec<&Value> = chunks
            .iter()
            .filter(|chunk| chunk["choices"][0]["index"] == index)
            .map(|chunk| &chunk["choices"][0])
            .collect();
        assert_eq!(mine[0]["delta"]["role"], "assistant");
        let text: String = mine
            .iter()
            .filter_map(|one| one["delta"]["content"].as_str())
            .collect();
        let expected = &whole["choices"][index];
        assert_eq!(expected["message"]["content"], text);
        let tokens = mine
            .iter()
            .filter_map(|one| one["logprobs"]["content"].as_array());
        let tokens: Vec<Value> = tokens.flatten().cloned().collect();
        assert_eq!(expected["logprobs"]["content"], json!(tokens));
        let end = mine.last().expect("an end");
        assert_eq!(end["finish_reason"], expected["finish_reason"]);
        assert_eq!(end["logits_sha256"], expected["logits_sha256"]);
        assert_eq!(end["logits_sha256"].as_str().map(str::len), Some(64));
    }
    // The conversation as the template lays it out is the same prompt.
    let prompt = "system: be kind\nuser: light\nassistant:";
    let plain = json!({"model": "small", "prompt": prompt, "seed": 3, "n": 2, "max_tokens": 40, "stream": true});
    let chunks = server.stream("/v1/completions", &plain);
    for index in 0..2 {
        let mine = chunks
            .iter()
            .filter(|chunk| chunk["choices"][0]["index"] == index);
        let text: String = mine
            .filter_map(|one| one["choices"][0]["text"].as_str())
            .collect();
        assert_eq!(whole["choices"][index]["message"]["content"], text);
    }
}

/// What lm-evaluation-harness reads: a prompt's tokens with theirs, one token behind them.
#[test]
fn an_echo_has_the_log_probabilities_of_the_prompt() {
    let server = start();
    let body = json!({
        "model": "small", "prompt": [[116, 104, 101], [108, 105, 103, 104, 116]],
        "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": true, "ignore_eos": true,
    });
    let found = server.answer("/v1/completions", &body);
    for (index, prompt) in ["the", "light"].iter().enumerate() {
        let choice = &found["choices"][index];
        assert!(choice["text"].as_str().expect("a text").starts_with(prompt));
        let list = &choice["logprobs"];
        let own = list["token_logprobs"].as_array().expect("a list");
        assert_eq!(own.len(), prompt.len() + 1);
        assert!(
            own[0].is_null()
                && own[1..]
                    .iter()
                    .all(|one| one.as_f64().is_some_and(|one| one < 0.0))
        );
        let top = list["top_logprobs"].as_array().expect("a list");
        // The last token was the likeliest.
        let likeliest = top[prompt.len()].as_object().expect("an object");
        assert_eq!(likeliest.values().next(), own.last());
        assert_eq!(
            list["text_offset"],
            json!((0..=prompt.len()).collect::<Vec<_>>())
        );
    }
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let chunks = server.stream("/v1/completions", &streamed);
    for index in 0..2 {
        let mine = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0])
            .filter(|one| one["index"] == index);
        let own = mine
            .filter_map(|one| one["logprobs"]["token_logprobs"].as_array())
            .flatten();
        let own: Vec<Value> = own.cloned().collect();
        assert_eq!(
            found["choices"][index]["logprobs"]["token_logprobs"],
            json!(own)
        );
    }
}

#[test]
fn embeddings_are_of_texts_and_of_tokens() {
    let server = start();
    let body = json!({"model": "plain", "input": ["the", [116, 104, 101], "a"]});
    let found = server.answer("/v1/embeddings", &body);
    assert_eq!(found["data"][0]["embedding"], found["data"][1]["embedding"]);
    assert_ne!(found["data"][0]["embedding"], found["data"][2]["embedding"]);
    assert_eq!(
        found["data"][2]["embedding"].as_array().map(Vec::len),
        Some(16)
    );
    assert_eq!(
        found["usage"],
        json!({"prompt_tokens": 7, "total_tokens": 7})
    );
    let body =
        json!({"model": "plain", "input": "the", "encoding_format": "base64", "dimensions": 16});
    let coded = server.answer("/v1/embeddings", &body);
    assert_eq!(
        coded["data"][0]["embedding"].as_str().map(str::len),
        Some(88)
    );
}

/// A model that knows nothing writes JSON of the schema, with the seed's choices.
#[test]
fn an_answer_follows_its_schema() {
    let server = start();
    let schema = json!({
        "type": "object",
        "properties": {"light": {"type": "boolean"}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["light", "n"],
        "additionalProperties": false,
    });
    let mut body = json!({
        "model": "small", "messages": [{"role": "user", "content": "a"}], "n": 4, "temperature": 1.5,
        "response_format": {"type": "json_schema", "json_schema": {"name": "it", "strict": true, "schema": schema}},
    });
    let mut texts = std::collections::BTreeSet::new();
    for seed in 0..3 {
        body["seed"] = json!(seed);
        let found = server.answer("/v1/chat/completions", &body);
        for index in 0..4 {
            let choice = &found["choices"][index];
            let text = choice["message"]["content"].as_str().expect("a text");
            if choice["finish_reason"] == "length" {
                continue;
            }
            let read: Value =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(
                read["light"].is_boolean() && read["n"].as_u64().is_some_and(|n| n < 100),
                "{text}"
            );
            texts.insert(text.to_owned());
        }
        assert_eq!(
            server.answer("/v1/chat/completions", &body)["choices"],
            found["choices"]
        );
    }
    assert!(texts.len() > 2, "{texts:?}");
    body["response_format"] = json!({"type": "json_object"});
    body["max_tokens"] = json!(12);
    let found = server.answer("/v1/chat/completions", &body);
    let text = found["choices"][0]["message"]["content"]
        .as_str()
        .expect("a text");
    assert!(text.trim_start().starts_with('{'), "{text}");
    let answer = json!({
        "model": "small", "input": "a", "seed": 1, "temperature": 0,
        "text": {"format": {"type": "json_schema", "name": "it", "schema": schema}},
    });
    let found = server.answer("/v1/responses", &answer);
    let text = found["output"][0]["content"][0]["text"]
        .as_str()
        .expect("a text");
    assert!(text.trim_start().starts_with('{'), "{text}");
}

/// A function that must be called is called with arguments of its schema.
#[test]
fn a_function_that_must_be_called_is_called() {
    let server = start();
    let parameters = json!({
        "type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": false,
    });
    let function = json!({"name": "light", "description": "switches", "parameters": parameters});
    let mut body = json!({
        "model": "small", "messages": [{"role": "user", "content": "a"}], "seed": 4,
        "tools": [{"type": "function", "function": function}, {"type": "function", "function": {"name": "other"}}],
        "tool_choice": {"type": "function", "function": {"name": "light"}},
    });
    let path = "/v1/chat/completions";
    let found = server.answer(path, &body);
    let choice = &found["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
    assert!(choice["message"]["content"].is_null());
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(
        (&call["type"], &call["function"]["name"]),
        (&json!("function"), &json!("light"))
    );
    let arguments = call["function"]["arguments"].as_str().expect("a text");
    let read: Value = serde_json::from_str(arguments).expect("JSON");
    assert!(read["on"].is_boolean());
    body["stream"] = json!(true);
    let chunks = server.stream(path, &body);
    let deltas = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]);
    let calls: Vec<&Value> = deltas.filter(|one| !one.is_null()).collect();
    assert!(calls.iter().all(|one| one["index"] == 0) && calls.len() > 1);
    // The name comes first, and the arguments in pieces.
    assert_eq!(
        calls[0]["function"],
        json!({"name": "light", "arguments": ""})
    );
    let pieces = calls
        .iter()
        .filter_map(|one| one["function"]["arguments"].as_str());
    assert_eq!(call["function"]["arguments"], pieces.collect::<String>());
    let last = chunks.last().expect("an end");
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    // What the function has said is a message of its own.
    let called = json!([{"id": "1", "type": "function", "function": call["function"]}]);
    let said = json!({
        "model": "small", "max_tokens": 3, "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": null, "tool_calls": called},
            {"role": "tool", "tool_call_id": "1", "content": "done"},
        ],
    });
    let found = server.answer(path, &said);
    let on = &read["on"];
    let laid_out = format!("user: a\nassistant: light{{\"on\": {on}}}\ntool: done\nassistant:");
    assert_eq!(
        found["usage"]["prompt_tokens"],
        laid_out.len(),
        "{laid_out}"
    );
    let chat_tools = body["tools"].clone();
    // The same in Anthropic's form.
    let tool = json!({"name": "light", "description": "switches", "input_schema": parameters});
    let mut body = json!({
        "model": "small", "messages": [{"role": "user", "content": "a"}], "seed": 4, "max_tokens": 200,
        "tools": [tool, {"name": "other", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "light"},
    });
    let found = server.answer("/v1/messages", &body);
    let block = &found["content"][0];
    assert_eq!(
        (&block["type"], &found["stop_reason"]),
        (&json!("tool_use"), &json!("tool_use")),
        "{found}"
    );
    assert_eq!((&block["name"], &block["input"]), (&json!("light"), &read));
    body["stream"] = json!(true);
    let events = server.events("/v1/messages", &body);
    let deltas = events
        .iter()
        .filter(|one| one["type"] == "content_block_delta");
    let inputs = deltas.filter_map(|one| one["delta"]["partial_json"].as_str());
    let input: Value = serde_json::from_str(&inputs.collect::<String>()).expect("JSON");
    assert_eq!(input, read);
    let said = json!({
        "model": "small", "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "done"}]},
        ],
    });
    let counted = server.answer("/v1/messages/count_tokens", &said);
    assert_eq!(counted["input_tokens"], laid_out.len());
    // The same as a response.
    let mut body = json!({
        "model": "small", "input": "a", "seed": 4,
        "tools": [{"type": "function", "name": "light", "description": "switches", "parameters": parameters}],
        "tool_choice": {"type": "function", "name": "light"},
    });
    let found = server.answer("/v1/responses", &body);
    let item = &found["output"][0];
    assert_eq!(
        (&item["type"], &found["status"]),
        (&json!("function_call"), &json!("completed")),
        "{found}"
    );
    let arguments = item["arguments"].as_str().expect("a text");
    assert!(serde_json::from_str::<Value>(arguments).expect("JSON")["on"].is_boolean());
    body["stream"] = json!(true);
    let events = server.events("/v1/responses", &body);
    let last = events.last().expect("an end");
    assert_eq!(last["type"], "response.completed");
    assert_eq!(
        last["response"]["output"][0]["arguments"],
        item["arguments"]
    );
    let names: Vec<&str> = events
        .iter()
        .filter_map(|one| one["type"].as_str())
        .collect();
    assert!(
        names.contains(&"response.function_call_arguments.delta"),
        "{names:?}"
    );
    let said = json!({
        "model": "small", "max_output_tokens": 1, "input": [
            {"role": "user", "content": "a"},
            item,
            {"type": "function_call_output", "call_id": item["call_id"], "output": "done"},
        ],
    });
    let found = server.answer("/v1/responses", &said);
    assert!(
        found["usage"]["input_tokens"]
            .as_u64()
            .is_some_and(|n| n.abs_diff(laid_out.len() as u64) < 2)
    );
    let none = json!({"model": "plain", "messages": [{"role": "user", "content": "a"}], "tools": chat_tools});
    let (status, param, _) = server.refused(path, &none);
    assert_eq!((status, &param[..]), (400, "tools"));
}

#[test]
fn what_is_wrong_is_named() {
    let server = start();
    let chat = |more: Value| {
        let mut body = json!({"model": "small", "messages": [{"role": "user", "content": "a"}]});
        for (name, value) in more.as_object().expect("an object") {
            body[name] = value.clone();
        }
        server.refused("/v1/chat/completions", &body)
    };
    for (more, status, param) in [
        (json!({"model": "nothing"}), 404, "model"),
        (json!({"model": 3}), 400, "model"),
        (json!({"messages": []}), 400, "messages"),
        (
            json!({"messages": [{"role": "nobody", "content": ""}]}),
            400,
            "messages[0].role",
        ),
        (
            json!({"messages": [{"role": "user"}]}),
            400,
            "messages[0].content",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            400,
            "messages[0].content[0].type",
        ),
        (
            json!({"messages": [{"role": "user", "content": "long ".repeat(50)}]}),
            400,
            "messages",
        ),
        (json!({"model": "plain"}), 400, "messages"),
        (json!({"temperature": -1}), 400, "temperature"),
        (json!({"temperature": "hot"}), 400, "temperature"),
        (json!({"temperature": 1e300}), 400, "temperature"),
        (json!({"top_p": 0}), 400, "top_p"),
        (json!({"min_p": 2}), 400, "min_p"),
        (json!({"n": 0}), 400, "n"),
        (json!({"n": 1.5}), 400, "n"),
        (json!({"seed": 0.5}), 400, "seed"),
        (json!({"max_tokens": -1}), 400, "max_tokens"),
        (json!({"presence_penalty": 3}), 400, "presence_penalty"),
        (json!({"logit_bias": {"x": 1}}), 400, "logit_bias.x"),
        (json!({"logit_bias": {"256": 1}}), 400, "logit_bias"),
        (json!({"logit_bias": [1]}), 400, "logit_bias"),
        (json!({"stop": ""}), 400, "stop[0]"),
        (json!({"stop": vec!["a"; 17]}), 400, "stop"),
        (json!({"top_logprobs": 2}), 400, "top_logprobs"),
        (
            json!({"logprobs": true, "top_logprobs": 21}),
            400,
            "top_logprobs",
        ),
        (json!({"stream_options": {}}), 400, "stream_options"),
        (
            json!({"response_format": {"type": "xml"}}),
            400,
            "response_format.type",
        ),
        (
            json!({"response_format": {"type": "json_schema"}}),
            400,
            "response_format.schema",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}}}),
            400,
            "response_format.json_schema.schema",
        ),
        (
            json!({"tools": [{"type": "function"}]}),
            400,
            "tools[0].function",
        ),
        (json!({"tool_choice": "required"}), 400, "tool_choice"),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "["}}]}]}),
            400,
            "messages[0].tool_calls[0].function.arguments",
        ),
        (json!({"store": true}), 400, "store"),
        (json!({"tempreature": 1}), 400, "tempreature"),
    ] {
        let (found, name, message) = chat(more.clone());
        assert_eq!((found, &name[..]), (status, param), "{more}: {message}");
        assert!(
            message.contains(param) && !message.contains('\n'),
            "{message}"
        );
    }
    let complete = |body: Value| server.refused("/v1/completions", &body);
    for (more, param) in [
        (json!({"model": "small"}), "prompt"),
        (json!({"model": "small", "prompt": ""}), "prompt"),
        (json!({"model": "small", "prompt": [[1, 256]]}), "prompt[0]"),
        (json!({"model": "small", "prompt": [1, "a"]}), "prompt[1]"),
        (json!({"model": "small", "prompt": ["a", {}]}), "prompt[1]"),
        (
            json!({"model": "small", "prompt": "a", "suffix": "b"}),
            "suffix",
        ),
        (
            json!({"model": "small", "prompt": "a", "best_of": 2}),
            "best_of",
        ),
    ] {
        let (found, name, message) = complete(more.clone());
        assert_eq!((found, &name[..]), (400, param), "{more}: {message}");
    }
    assert_eq!(server.get("/v1/nothing").status, 404);
    assert_eq!(server.get("/v1/completions").status, 405);
    assert_eq!(server.get("/v1/models/other").status, 404);
    assert_eq!(server.get("/v1/models/small").json()["max_model_len"], 256);
    assert_eq!(server.get("/v1/models").json()["data"][1]["id"], "plain");
}
