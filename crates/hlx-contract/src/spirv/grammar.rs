//! The instructions that contracts may use, and how their words are read.
//!
//! "SPIR-V Specification", section 3.42. What is not in the table is refused: images, matrices,
//! forward pointers, and what belongs to graphics or to OpenCL.

/// How the words of an instruction are read, one letter each: `T` result type, `R` result, `i`
/// id, `l` literal, `s` string, `m` memory operands, `p` pairs of ids, `w` pairs of a literal and
/// a label; a `*` before a letter stands for any number, a `?` for none or one.
pub(super) struct Row {
    pub opcode: u16,
    pub name: &'static str,
    pub layout: &'static str,
}

/// Finds an opcode's row.
pub(super) fn row(opcode: u16) -> Option<&'static Row> {
    let place = TABLE.binary_search_by_key(&opcode, |row| row.opcode);
    place.ok().map(|place| &TABLE[place])
}

/// The name of an opcode, for messages.
pub(super) fn name(opcode: u16) -> String {
    row(opcode).map_or_else(|| format!("opcode {opcode}"), |row| row.name.to_owned())
}

/// Reads a string literal: its text and the words that it takes.
pub(super) fn string(words: &[u32]) -> Result<(String, usize), String> {
    let end = words
        .iter()
        .position(|word| word.to_le_bytes().contains(&0));
    let end = end.ok_or("a string without its end")?;
    let bytes = words[..=end].iter().flat_map(|word| word.to_le_bytes());
    let text: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    let text = String::from_utf8(text).map_err(|_| "a string that is not UTF-8")?;
    Ok((text, end + 1))
}

/// The ids that an instruction defines and uses.
#[derive(Default, Debug)]
pub(super) struct Ids {
    pub result_type: u32,
    pub result: u32,
    /// Every other id, in order.
    pub used: Vec<u32>,
}

/// Walks the words behind an instruction's first.
pub(super) fn ids(layout: &str, words: &[u32]) -> Result<Ids, String> {
    let mut ids = Ids::default();
    let mut rest = words;
    let mut letters = layout.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => {
                let repeated = letters.next().unwrap_or(' ');
                while !rest.is_empty() {
                    rest = one(repeated, rest, &mut ids)?;
                }
            }
            '?' => {
                let optional = letters.next().unwrap_or(' ');
                if !rest.is_empty() {
                    rest = one(optional, rest, &mut ids)?;
                }
            }
            letter => rest = one(letter, rest, &mut ids)?,
        }
    }
    if rest.is_empty() {
        return Ok(ids);
    }
    Err(format!("{} words too many", rest.len()))
}

fn one<'a>(letter: char, words: &'a [u32], ids: &mut Ids) -> Result<&'a [u32], String> {
    let take = |count: usize| {
        let missing = || "words are missing".to_owned();
        words.split_at_checked(count).ok_or_else(missing)
    };
    match letter {
        'T' | 'R' | 'i' => {
            let (word, rest) = take(1)?;
            match letter {
                'T' => ids.result_type = word[0],
                'R' => ids.result = word[0],
                _ => ids.used.push(word[0]),
            }
            Ok(rest)
        }
        'l' => take(1).map(|(_, rest)| rest),
        's' => take(string(words)?.1).map(|(_, rest)| rest),
        'm' => {
            const ALIGNED: u32 = 2;
            const KNOWN: u32 = 1 | ALIGNED | 4;
            let (mask, _) = take(1)?;
            if mask[0] & !KNOWN != 0 {
                return Err(format!("memory operands {:#x} are not supported", mask[0]));
            }
            take(if mask[0] & ALIGNED != 0 { 2 } else { 1 }).map(|(_, rest)| rest)
        }
        'p' => {
            let (pair, rest) = take(2)?;
            ids.used.extend_from_slice(pair);
            Ok(rest)
        }
        'w' => {
            let (pair, rest) = take(2)?;
            ids.used.push(pair[1]);
            Ok(rest)
        }
        other => Err(format!("layout letter `{other}`")),
    }
}

macro_rules! table {
    ($($opcode:literal $name:ident $layout:literal)+) => {
        /// Rows by opcode, ascending.
        static TABLE: &[Row] = &[$(Row {
            opcode: $opcode,
            name: concat!("Op", stringify!($name)),
            layout: $layout,
        }),+];

        /// The opcodes by name.
        #[allow(non_upper_case_globals, dead_code)]
        pub(super) mod op {
            $(pub const $name: u16 = $opcode;)+
        }
    };
}

table! {
    0 Nop ""
    1 Undef "TR"
    2 SourceContinued "s"
    3 Source "ll?i?s"
    4 SourceExtension "s"
    5 Name "is"
    6 MemberName "ils"
    7 String "Rs"
    8 Line "ill"
    10 Extension "s"
    11 ExtInstImport "Rs"
    12 ExtInst "TRil*i"
    14 MemoryModel "ll"
    15 EntryPoint "lis*i"
    16 ExecutionMode "il*l"
    17 Capability "l"
    19 TypeVoid "R"
    20 TypeBool "R"
    21 TypeInt "Rll"
    22 TypeFloat "Rl"
    23 TypeVector "Ril"
    28 TypeArray "Rii"
    29 TypeRuntimeArray "Ri"
    30 TypeStruct "R*i"
    32 TypePointer "Rli"
    33 TypeFunction "Ri*i"
    41 ConstantTrue "TR"
    42 ConstantFalse "TR"
    43 Constant "TR*l"
    44 ConstantComposite "TR*i"
    46 ConstantNull "TR"
    48 SpecConstantTrue "TR"
    49 SpecConstantFalse "TR"
    50 SpecConstant "TR*l"
    51 SpecConstantComposite "TR*i"
    52 SpecConstantOp "TRl*l"
    54 Function "TRli"
    55 FunctionParameter "TR"
    56 FunctionEnd ""
    57 FunctionCall "TRi*i"
    59 Variable "TRl?i"
    61 Load "TRi?m"
    62 Store "ii?m"
    63 CopyMemory "ii?m?m"
    65 AccessChain "TRi*i"
    66 InBoundsAccessChain "TRi*i"
    68 ArrayLength "TRil"
    71 Decorate "il*l"
    72 MemberDecorate "ill*l"
    77 VectorExtractDynamic "TRii"
    78 VectorInsertDynamic "TRiii"
    79 VectorShuffle "TRii*l"
    80 CompositeConstruct "TR*i"
    81 CompositeExtract "TRi*l"
    82 CompositeInsert "TRii*l"
    83 CopyObject "TRi"
    109 ConvertFToU "TRi"
    110 ConvertFToS "TRi"
    111 ConvertSToF "TRi"
    112 ConvertUToF "TRi"
    113 UConvert "TRi"
    114 SConvert "TRi"
    115 FConvert "TRi"
    116 QuantizeToF16 "TRi"
    124 Bitcast "TRi"
    126 SNegate "TRi"
    127 FNegate "TRi"
    128 IAdd "TRii"
    129 FAdd "TRii"
    130 ISub "TRii"
    131 FSub "TRii"
    132 IMul "TRii"
    133 FMul "TRii"
    134 UDiv "TRii"
    135 SDiv "TRii"
    136 FDiv "TRii"
    137 UMod "TRii"
    138 SRem "TRii"
    139 SMod "TRii"
    140 FRem "TRii"
    141 FMod "TRii"
    142 VectorTimesScalar "TRii"
    148 Dot "TRii"
    149 IAddCarry "TRii"
    150 ISubBorrow "TRii"
    151 UMulExtended "TRii"
    152 SMulExtended "TRii"
    154 Any "TRi"
    155 All "TRi"
    156 IsNan "TRi"
    157 IsInf "TRi"
    164 LogicalEqual "TRii"
    165 LogicalNotEqual "TRii"
    166 LogicalOr "TRii"
    167 LogicalAnd "TRii"
    168 LogicalNot "TRi"
    169 Select "TRiii"
    170 IEqual "TRii"
    171 INotEqual "TRii"
    172 UGreaterThan "TRii"
    173 SGreaterThan "TRii"
    174 UGreaterThanEqual "TRii"
    175 SGreaterThanEqual "TRii"
    176 ULessThan "TRii"
    177 SLessThan "TRii"
    178 ULessThanEqual "TRii"
    179 SLessThanEqual "TRii"
    180 FOrdEqual "TRii"
    181 FUnordEqual "TRii"
    182 FOrdNotEqual "TRii"
    183 FUnordNotEqual "TRii"
    184 FOrdLessThan "TRii"
    185 FUnordLessThan "TRii"
    186 FOrdGreaterThan "TRii"
    187 FUnordGreaterThan "TRii"
    188 FOrdLessThanEqual "TRii"
    189 FUnordLessThanEqual "TRii"
    190 FOrdGreaterThanEqual "TRii"
    191 FUnordGreaterThanEqual "TRii"
    194 ShiftRightLogical "TRii"
    195 ShiftRightArithmetic "TRii"
    196 ShiftLeftLogical "TRii"
    197 BitwiseOr "TRii"
    198 BitwiseXor "TRii"
    199 BitwiseAnd "TRii"
    200 Not "TRi"
    201 BitFieldInsert "TRiiii"
    202 BitFieldSExtract "TRiii"
    203 BitFieldUExtract "TRiii"
    204 BitReverse "TRi"
    205 BitCount "TRi"
    224 ControlBarrier "iii"
    225 MemoryBarrier "ii"
    227 AtomicLoad "TRiii"
    228 AtomicStore "iiii"
    229 AtomicExchange "TRiiii"
    230 AtomicCompareExchange "TRiiiiii"
    232 AtomicIIncrement "TRiii"
    233 AtomicIDecrement "TRiii"
    234 AtomicIAdd "TRiiii"
    235 AtomicISub "TRiiii"
    236 AtomicSMin "TRiiii"
    237 AtomicUMin "TRiiii"
    238 AtomicSMax "TRiiii"
    239 AtomicUMax "TRiiii"
    240 AtomicAnd "TRiiii"
    241 AtomicOr "TRiiii"
    242 AtomicXor "TRiiii"
    245 Phi "TR*p"
    246 LoopMerge "iil*l"
    247 SelectionMerge "il"
    248 Label "R"
    249 Branch "i"
    250 BranchConditional "iii*l"
    251 Switch "ii*w"
    253 Return ""
    254 ReturnValue "i"
    255 Unreachable ""
    317 NoLine ""
    330 ModuleProcessed "s"
    333 GroupNonUniformElect "TRi"
    334 GroupNonUniformAll "TRii"
    335 GroupNonUniformAny "TRii"
    337 GroupNonUniformBroadcast "TRiii"
    338 GroupNonUniformBroadcastFirst "TRii"
    339 GroupNonUniformBallot "TRii"
    345 GroupNonUniformShuffle "TRiii"
    346 GroupNonUniformShuffleXor "TRiii"
    347 GroupNonUniformShuffleUp "TRiii"
    348 GroupNonUniformShuffleDown "TRiii"
    400 CopyLogical "TRi"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_ascend() {
        assert!(TABLE.windows(2).all(|pair| pair[0].opcode < pair[1].opcode));
        assert_eq!(name(op::FAdd), "OpFAdd");
        assert_eq!(name(9999), "opcode 9999");
    }

    #[test]
    fn words_are_walked() {
        let found = ids("TRi*i", &[1, 2, 3, 4]).expect("a whole instruction");
        assert_eq!((found.result_type, found.result), (1, 2));
        assert_eq!(found.used, [3, 4]);
        assert!(ids("TRii", &[1, 2, 3]).is_err());
        assert!(ids("TR", &[1, 2, 3]).is_err());
        assert!(ids("s", &[u32::MAX]).is_err());
        let main = u32::from_le_bytes(*b"main");
        assert_eq!(string(&[main, 0, 7]), Ok(("main".to_owned(), 2)));
    }
}
