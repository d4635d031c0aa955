//! Readers of hlx-text: tokens, indexes of shards, tokenizers, corpora and chat templates.

use std::fs;
use std::ops::ControlFlow;

use hlx_text::{
    ChatTemplate, Document, Message, PrepareOptions, ShardOptions, ShardWriter, SourceFormat,
    TokenSamples, TokenShards, Tokenizer, Windows, prepare,
};

use crate::scratch;

/// Reads a token file of nanoGPT or llm.c, and makes a batch of it.
pub fn token_file(data: &[u8]) {
    if let Ok(shards) = TokenShards::from_bytes(data.to_vec(), "fuzz") {
        let n = shards.len();
        let tokens = shards.read(0..n);
        assert!(tokens.is_ok_and(|tokens| tokens.len() as u64 == n));
        use_shards(&shards);
    }
}

/// Opens a folder of shards whose index is any bytes, and one whose starts are.
pub fn shard_index(data: &[u8]) {
    for name in ["index.json", "shard-00000.starts"] {
        let folder = scratch(&format!("shards-{name}"));
        let _ = fs::remove_dir_all(&folder);
        let mut writer = ShardWriter::create(&folder, ShardOptions::new(300)).expect("a folder");
        let tokens = (0..64).collect();
        writer.add(&Document::new(tokens)).expect("written");
        let last = Document::new(vec![299]);
        writer.add(&last).expect("written");
        writer.finish().expect("written");
        let mut bytes = data.to_vec();
        if name != "index.json" {
            // The size that the index states, so that the starts are read.
            bytes.resize(16, 0);
        }
        fs::write(folder.join(name), bytes).expect("written");
        if let Ok(shards) = TokenShards::open(&folder) {
            use_shards(&shards);
            let _ = shards.verify();
        }
    }
}

fn use_shards(shards: &TokenShards) {
    for number in 0..shards.n_documents().min(8) {
        let _ = shards.document(number).map(|range| shards.read(range));
    }
    let _ = shards.split(0.3);
    let windows = Windows::new(shards.clone(), 0..shards.len(), 4, 1);
    if let Ok(windows) = windows {
        let _ = windows.with_separate_documents().batch(0, 2);
    }
}

/// Reads a tokenizer; what it encodes is in its vocabulary, alone and between special tokens.
pub fn tokenizer(data: &[u8]) {
    if let Ok(tokenizer) = Tokenizer::from_json(data) {
        use_tokenizer(&tokenizer);
    }
}

/// Encodes and decodes texts, one of them long, token by token, too.
pub(crate) fn use_tokenizer(tokenizer: &Tokenizer) {
    let n = tokenizer.vocabulary_size();
    let long = "xx  y\n".repeat(200);
    let texts = [
        "",
        "the river's 12 lights\n",
        "\u{e9}\u{6771} <|endoftext|> <s> [CLS]",
        &long,
    ];
    for text in texts {
        let all = [tokenizer.encode(text), tokenizer.encode_with_specials(text)];
        for tokens in all.into_iter().flatten() {
            assert!(tokens.iter().all(|&id| (id as usize) < n));
            let _ = tokenizer.decode(&tokens);
            let _ = tokenizer.decode_all(&tokens);
            let mut stream = tokenizer.stream();
            let _ = tokens
                .iter()
                .take(32)
                .try_for_each(|&id| stream.push(id).map(|_| ()));
            let _ = stream.finish();
        }
    }
    let last = u32::try_from(n).unwrap_or(u32::MAX);
    let _ = tokenizer.decode_all(&[0, last.saturating_sub(1)]);
    assert_eq!(tokenizer.decode(&[last]).ok().as_deref(), Some(""));
}

/// Prepares a file of any bytes in each format; what is written is whole.
pub fn prepared(data: &[u8]) {
    let folder = scratch("prepare");
    let input = folder.join("input");
    for format in [
        SourceFormat::Text,
        SourceFormat::Jsonl,
        SourceFormat::Tokens,
    ] {
        let out = folder.join("out");
        let _ = fs::remove_dir_all(&out);
        fs::write(&input, data).expect("written");
        let options = PrepareOptions {
            format: Some(format),
            threads: 1,
            template: Some("{{ messages }}".to_owned()),
            ..PrepareOptions::new(vec![input.clone()], out)
        };
        let done = prepare(&options, &Tokenizer::bytes(), |_| ControlFlow::Continue(()));
        if let Ok(shards) = done {
            shards.verify().expect("whole");
        }
    }
}

/// Compiles and renders a chat template, and renders a conversation by a template that walks through all of it.
pub fn chat_template(data: &[u8]) {
    const WALK: &str = "{% for m in messages %}{{ m | tojson(indent=2) }}{{ m.content ~ '' }}\
                        {% if m in messages and m == messages[-1] %}{{ m | dictsort }}{% endif %}{% endfor %}";
    let Ok(source) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(messages) = serde_json::from_str::<Vec<Message>>(source) {
        let walk = ChatTemplate::new(WALK, "<s>", "</s>").expect("a template");
        let _ = walk.render(&messages, true);
    }
    if let Ok(template) = ChatTemplate::new(source, "<s>", "</s>") {
        use_template(&template);
    }
}

/// Renders conversations; what is trained on lies in the text.
pub(crate) fn use_template(template: &ChatTemplate) {
    let call = r#"{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
                   "arguments": {"a": [1, 2.5, "x"], "b": {"c": true}}}}]}"#;
    let call: Message = serde_json::from_str(call).expect("a message");
    let messages = [
        Message::new("user", "hi"),
        Message::new("assistant", "ho"),
        call,
    ];
    for messages in [&messages[..0], &messages[..2], &messages] {
        let _ = template.render(messages, true);
        if let Ok((text, answers)) = template.render_for_training(messages) {
            assert!(answers.into_iter().all(|range| text.get(range).is_some()));
        }
    }
}
