//! Readers of a server's requests.

/// The routes that read a body.
const ROUTES: [&str; 6] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
];

/// Reads the body of a request, as far as it is read without a model: the first byte is the route. What is wrong is one
/// line, and names a status of the client's. Behind the routes, a model's answer with calls of functions in the form that
/// the byte says, in pieces and whole: both are the same.
pub fn requests(data: &[u8]) {
    let Some((&route, body)) = data.split_first() else {
        return;
    };
    let route = usize::from(route) % (ROUTES.len() + hlx_serve::N_CALL_FORMS);
    if let Some(form) = route.checked_sub(ROUTES.len()) {
        let text = String::from_utf8_lossy(body);
        if let Err(difference) = hlx_serve::check_calls(form, &text) {
            panic!("{difference}");
        }
        return;
    }
    let route = ROUTES[route];
    if let Err(error) = hlx_serve::check_body(route, body) {
        assert!(error.status.is_client_error(), "{error:?}");
        assert!(error.body()["error"]["message"].is_string());
    }
}

/// First inputs: a name, and a body for a route.
pub fn request_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let bodies = [
        (
            "chat",
            0,
            r#"{"model": "m", "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": [1]}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "c"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "tool_choice": "required", "logprobs": true, "top_logprobs": 3, "seed": -1, "stop": ["x", "y"], "logit_bias": {"7": -100}, "stream": true, "stream_options": {"include_usage": true}, "chat_template_kwargs": {"enable_thinking": false}}"#,
        ),
        (
            "schema",
            0,
            r#"{"model": "m", "messages": [{"role": "user", "content": ""}], "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "object"}}}, "n": 2, "max_completion_tokens": 9, "presence_penalty": -2, "frequency_penalty": 2}"#,
        ),
        (
            "completion",
            1,
            r#"{"model": "m", "prompt": [[1, 2], "a"], "echo": true, "logprobs": 5, "best_of": 1, "temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1, "max_tokens": 0, "ignore_eos": true, "logit_digests": true}"#,
        ),
        (
            "embeddings",
            2,
            r#"{"model": "m", "input": [1, 2], "encoding_format": "base64", "dimensions": 8, "user": "u"}"#,
        ),
        (
            "response",
            3,
            r#"{"model": "m", "instructions": "i", "input": [{"role": "developer", "content": [{"type": "input_text", "text": "a"}]}], "text": {"format": {"type": "json_object"}, "verbosity": "low"}, "include": ["message.output_text.logprobs"], "top_logprobs": 2, "store": false}"#,
        ),
        (
            "message",
            4,
            r#"{"model": "m", "max_tokens": 3, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}], "messages": [{"role": "user", "content": "a"}], "stop_sequences": ["b"], "stream": true}"#,
        ),
        (
            "tools",
            3,
            r##"{"model": "m", "input": [{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "b"}]}], "tools": [{"type": "function", "name": "f", "strict": true, "parameters": {"type": "object"}}], "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false, "stream": true, "stream_options": {}, "text": {"format": {"type": "json_schema", "name": "n", "schema": {"$ref": "#"}}}}"##,
        ),
        (
            "blocks",
            4,
            r#"{"model": "m", "max_tokens": 3, "messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "b"}], "is_error": false}]}], "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "thinking": {"type": "disabled"}}"#,
        ),
        (
            "counted",
            5,
            r#"{"model": "m", "system": "s", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "tools": [{"type": "custom", "name": "f", "description": "d", "input_schema": {}}], "tool_choice": {"type": "tool", "name": "f"}}"#,
        ),
        (
            "twice",
            1,
            r#"{"model": "m", "prompt": "a", "prompt": [1]}"#,
        ),
        (
            "calls",
            6,
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [\"}\", null]}}\n</tool_call> and <tool_call><function=f>\
             <parameter=a>\n1\n</parameter></function></tool_call>",
        ),
        (
            "calls_alone",
            8,
            r#"{"type": "function", "name": "f", "parameters": {"a": 1}}; {"name": "f"}<|python_tag|>x"#,
        ),
        (
            "calls_named",
            10,
            r#"so [TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": "\"]"}[TOOL_CALLS][{"name": "g", "arguments": "{}"}, {"arguments": {}, "name": "f"}]"#,
        ),
        (
            "calls_fenced",
            12,
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\
             <｜tool▁calls▁end｜>",
        ),
        (
            "nested",
            0,
            "{\"a\":[[[[[[[[[[[[{\"a\":[1e999,-0,\"\\ud83d\\ude00\"]}]]]]]]]]]]]]}",
        ),
    ];
    let seed = |(name, route, body): (&'static str, u8, &str)| {
        (name, [&[route], body.as_bytes()].concat())
    };
    bodies.map(seed).into()
}
