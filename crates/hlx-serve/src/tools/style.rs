//! How models write calls of functions, which their chat templates show.

use hlx_text::Tokenizer;

/// The form of a model's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `<tool_call>{"name": .., "arguments": {..}}</tool_call>`: Hermes, Qwen, SmolLM, Granite 4.
    Tagged,
    /// `<tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>`: Qwen3-Coder.
    Parameters,
    /// `{"name": .., "parameters": {..}}`, alone or behind `<|python_tag|>`: Llama 3.
    Bare,
    /// `[TOOL_CALLS] [{"name": .., "arguments": {..}}, ..]`: Mistral until 2024.
    MistralList,
    /// `[TOOL_CALLS]NAME[ARGS]{..}`: Mistral since 2025.
    MistralNamed,
    /// `<|tool_call|>[{"name": .., "arguments": {..}}, ..]`: Granite 3, Phi 4.
    BarredList,
    /// DeepSeek V3 and R1: the arguments in a fence of Markdown behind the name.
    DeepSeekFenced,
    /// DeepSeek V3.1: the arguments right behind the name.
    DeepSeek,
}

pub(super) const TAG: &str = "<tool_call>";
pub(super) const END_TAG: &str = "</tool_call>";
pub(super) const PYTHON_TAG: &str = "<|python_tag|>";
pub(super) const MISTRAL: &str = "[TOOL_CALLS]";
pub(super) const MISTRAL_ID: &str = "[CALL_ID]";
pub(super) const MISTRAL_ARGUMENTS: &str = "[ARGS]";
pub(super) const BARRED: &str = "<|tool_call|>";
pub(super) const END_BARRED: &str = "<|/tool_call|>";
pub(super) const SECTION: &str = "<｜tool▁calls▁begin｜>";
pub(super) const END_SECTION: &str = "<｜tool▁calls▁end｜>";
pub(super) const CALL: &str = "<｜tool▁call▁begin｜>";
pub(super) const END_CALL: &str = "<｜tool▁call▁end｜>";
pub(super) const SEPARATOR: &str = "<｜tool▁sep｜>";
pub(super) const FUNCTION: &str = "<function=";
pub(super) const PARAMETER: &str = "<parameter=";
pub(super) const END_PARAMETER: &str = "</parameter>";
pub(super) const END_FUNCTION: &str = "</function>";

impl Style {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Tagged,
        Self::Parameters,
        Self::Bare,
        Self::MistralList,
        Self::MistralNamed,
        Self::BarredList,
        Self::DeepSeekFenced,
        Self::DeepSeek,
    ];

    /// The forms that are known here, for messages.
    pub const KNOWN: &str = "<tool_call>, {\"name\", \"parameters\"}, [TOOL_CALLS], <|tool_call|> or <｜tool▁calls▁begin｜>";

    /// The style of a template, if it is known here.
    pub fn of_template(source: &str) -> Option<Self> {
        let has = |text: &str| source.contains(text);
        if has(SECTION) {
            let style = if has("```json") {
                Self::DeepSeekFenced
            } else {
                Self::DeepSeek
            };
            return Some(style);
        }
        if has(MISTRAL) {
            let style = if has(MISTRAL_ARGUMENTS) {
                Self::MistralNamed
            } else {
                Self::MistralList
            };
            return Some(style);
        }
        if has(TAG) {
            return match (has(FUNCTION) && has(PARAMETER), has("<arg_key>")) {
                (true, _) => Some(Self::Parameters),
                (false, false) if has("arguments") => Some(Self::Tagged),
                (false, _) => None,
            };
        }
        if has(BARRED) {
            return Some(Self::BarredList);
        }
        // Llama's templates teach it in words, with and without blanks behind the colons.
        let teaches = has("\"name\": function name, \"parameters\":") || has("{\"name\": \"' ");
        (teaches || (has(PYTHON_TAG) && has("\"parameters\""))).then_some(Self::Bare)
    }

    /// What begins calls.
    pub(super) fn open(self) -> &'static str {
        match self {
            Self::Tagged | Self::Parameters => TAG,
            Self::Bare => PYTHON_TAG,
            Self::MistralList | Self::MistralNamed => MISTRAL,
            Self::BarredList => BARRED,
            Self::DeepSeekFenced | Self::DeepSeek => SECTION,
        }
    }

    /// What may stand behind a call, and is no text.
    pub(super) fn closes(self) -> &'static [&'static str] {
        match self {
            Self::Tagged | Self::Parameters => &[END_TAG],
            Self::Bare | Self::MistralList | Self::MistralNamed => &[],
            Self::BarredList => &[END_BARRED],
            Self::DeepSeekFenced | Self::DeepSeek => &[END_SECTION],
        }
    }

    /// The special tokens that calls are made of: they are part of an answer's text.
    pub fn marks(self, tokenizer: &Tokenizer) -> Vec<u32> {
        let marks: &[&str] = match self {
            Self::Tagged | Self::Parameters => &[TAG, END_TAG],
            Self::Bare => &[PYTHON_TAG],
            Self::MistralList | Self::MistralNamed => &[MISTRAL, MISTRAL_ID, MISTRAL_ARGUMENTS],
            Self::BarredList => &[BARRED, END_BARRED],
            Self::DeepSeekFenced | Self::DeepSeek => {
                &[SECTION, END_SECTION, CALL, END_CALL, SEPARATOR]
            }
        };
        let ids = marks.iter().filter_map(|mark| tokenizer.token_to_id(mark));
        // Others are text anyway.
        ids.filter(|&id| tokenizer.token_bytes(id).is_none())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_says_how_calls_are_written() {
        let cases = [
            (
                "<tool_call>{\"name\": <name>, \"arguments\": <args>}</tool_call>",
                Some(Style::Tagged),
            ),
            (
                "<tool_call>\n<function=f>\n<parameter=a>",
                Some(Style::Parameters),
            ),
            (
                "Respond in the format {\"name\": function name, \"parameters\": dictionary}",
                Some(Style::Bare),
            ),
            (
                "{{- '<|python_tag|>' }}{{- '\"parameters\": ' }}",
                Some(Style::Bare),
            ),
            ("{{ \"[TOOL_CALLS] [\" }}", Some(Style::MistralList)),
            ("[TOOL_CALLS]{{ name }}[ARGS]", Some(Style::MistralNamed)),
            (
                "respond only with <|tool_call|> followed by a list",
                Some(Style::BarredList),
            ),
            (
                "<｜tool▁calls▁begin｜>\\n```json\\n",
                Some(Style::DeepSeekFenced),
            ),
            (
                "<｜tool▁calls▁begin｜>{{ name }}<｜tool▁sep｜>",
                Some(Style::DeepSeek),
            ),
            ("<tool_call>name\n<arg_key>a</arg_key> arguments", None),
            ("{{ messages }}", None),
        ];
        for (template, style) in cases {
            assert_eq!(Style::of_template(template), style, "{template}");
        }
    }
}
