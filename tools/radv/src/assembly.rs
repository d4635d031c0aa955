//! Reads machine code of AMD's chips as the driver prints it: operations with their operands.

/// One operation of an instruction; a dual instruction has two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The line of the listing, from 1.
    pub line: usize,
    /// The instruction's text without its encoding.
    pub text: &'a str,
    /// Its name without the prefix of a dual instruction and the suffix of an encoding.
    pub name: String,
    /// What it writes and reads, and its modifiers: `v1`, `0x4f7ffffe`, `-|v2|`, `clamp`.
    pub operands: Vec<&'a str>,
}

/// Suffixes that name an encoding.
const ENCODINGS: [&str; 6] = ["_e32", "_e64", "_dpp", "_dpp8", "_sdwa", "_e64_dpp"];

/// Returns a listing's operations in order.
pub fn operations(listing: &str) -> Vec<Operation<'_>> {
    let lines = listing.lines().enumerate();
    lines
        .flat_map(|(idx, line)| {
            let text = line.split([';']).next().unwrap_or_default().trim();
            let is_label = text.ends_with(':');
            let halves = text
                .split(" :: ")
                .filter(move |half| !is_label && !half.is_empty());
            halves.map(move |half| operation(idx + 1, half.trim()))
        })
        .collect()
}

fn operation(line: usize, text: &str) -> Operation<'_> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let encoding = ENCODINGS
        .iter()
        .rev()
        .find_map(|suffix| name.strip_suffix(suffix));
    let name = encoding.unwrap_or(name);
    let name = match name.strip_prefix("v_dual_") {
        Some(name) => format!("v_{name}"),
        None => name.to_owned(),
    };
    Operation {
        line,
        text,
        name,
        operands: rest
            .split([',', ' '])
            .filter(|operand| !operand.is_empty())
            .collect(),
    }
}

impl Operation<'_> {
    /// Whether it reads a register, with whatever sign.
    pub fn reads(&self, register: &str) -> bool {
        let bare = |operand: &&str| operand.trim_matches(['-', '|']) == register;
        self.operands.iter().skip(1).any(bare)
    }

    /// Whether it writes a register, alone.
    pub fn writes(&self, register: &str) -> bool {
        self.operands.first() == Some(&register)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_names_and_operands() {
        let listing = "BB0:\n\tv_mul_f32_e32 v3, 0x4f7ffffe, v3  ; 100606ff 4f7ffffe\n\
            \tv_dual_fmac_f32 v1, v2, v4 :: v_dual_mov_b32 v9, -|v7| ; c8\n\ts_endpgm ; bf810000";
        let found = operations(listing);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["v_mul_f32", "v_fmac_f32", "v_mov_b32", "s_endpgm"]);
        let lines: Vec<usize> = found.iter().map(|one| one.line).collect();
        assert_eq!(lines, [2, 3, 3, 4]);
        assert_eq!(found[0].operands, ["v3", "0x4f7ffffe", "v3"]);
        assert!(found[0].writes("v3") && found[0].reads("v3"));
        assert!(found[2].reads("v7") && !found[2].reads("v9"));
    }
}
