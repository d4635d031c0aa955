//! spirv-val as oracle: it accepts every mutated module that the validator accepts.
//!
//! The reverse does not hold: contracts take a part of SPIR-V.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use hlx_core::arith::philox4x32;
use hlx_core::testing::{left_out, spirv_val};
use hlx_spirv::{Instruction, read};

use super::super::grammar::op;
use super::super::validate;
use super::{modules, vector_add};

const SEED: [u32; 2] = [0x0048_4c58, 900];
/// The validator accepts about one mutant in seven; spirv-val takes 5 to 20 ms for each of these.
const MUTANTS: u32 = 4000;
/// `HLX_EXHAUSTIVE=1` tries more: minutes.
const MUTANTS_EXHAUSTIVE: u32 = 150_000;
/// Larger modules take spirv-val longer and have the same instructions.
const MAX_WORDS: usize = 12_000;

/// A module of HLX's to be mutated.
struct Original {
    name: String,
    words: Vec<u32>,
    instructions: Vec<Instruction>,
}

impl Original {
    fn all() -> Vec<Self> {
        let small = modules().into_iter().filter(|m| m.1.len() <= MAX_WORDS);
        let read = |(name, words): (String, Vec<u32>)| Self {
            name,
            instructions: read(&words).expect("a module"),
            words,
        };
        small.map(read).collect()
    }

    /// The words of an instruction.
    fn range(&self, instruction: &Instruction) -> Range<usize> {
        instruction.at..instruction.at + 1 + instruction.words.len()
    }

    /// Returns a mutant; the number alone decides which.
    fn mutant(&self, number: u32) -> Vec<u32> {
        let [kind, place, a, b] = philox4x32([number, 0, 0, 0], SEED);
        let whole = &self.words;
        let pick = |number: u32| &self.instructions[number as usize % self.instructions.len()];
        let operand = |of: &Instruction, number: u32| {
            of.at + usize::from(!of.words.is_empty()) + number as usize % of.words.len().max(1)
        };
        let (one, other) = (pick(place), pick(a));
        let (range, changed) = (self.range(one), operand(one, b));
        let mut words = whole.clone();
        match kind % 12 {
            0 => words[changed] = a % whole[3],
            1 => words[changed] = whole[operand(other, b >> 8)],
            2 => words[changed] ^= 1 << (a % 32),
            3 => words[changed] = a % 40,
            4 => words.swap(changed, operand(one, b >> 8)),
            5 => words[one.at] = (whole[one.at] & 0xffff_0000) | u32::from(other.opcode),
            6 => drop(words.drain(range)),
            7 => drop(words.splice(range.start..range.start, whole[self.range(other)].to_vec())),
            8 => {
                let next = self.instructions.get(one.index + 1).unwrap_or(one);
                words[range.start..self.range(next).end].rotate_left(range.len());
            }
            // An id gives way to one that is defined alike, so that most checks pass.
            9 => words[changed] = self.alike(whole[changed], a, |i| (i.opcode, 0)),
            10 => words[changed] = self.alike(whole[changed], a, |i| (0, i.ids.result_type)),
            _ => words[changed] = self.alike(whole[changed], a, |i| (i.opcode, i.ids.result_type)),
        }
        words
    }

    /// Returns an id whose definition has the same key as that of `id`.
    fn alike(&self, id: u32, number: u32, key: fn(&Instruction) -> (u16, u32)) -> u32 {
        let defines = |i: &&Instruction| i.defines;
        let definitions = || self.instructions.iter().filter(defines);
        let Some(own) = definitions().find(|i| i.ids.result == id).map(key) else {
            return id;
        };
        let same: Vec<u32> = definitions()
            .filter(|i| key(i) == own)
            .map(|i| i.ids.result)
            .collect();
        same[number as usize % same.len()]
    }
}

/// Whether a module names a source language that spirv-val of 2023 does not know yet.
fn has_newer_language(words: &[u32]) -> bool {
    let instructions = read(words).unwrap_or_default();
    instructions
        .iter()
        .any(|i| i.opcode == op::Source && i.words[0] > 7)
}

/// Returns what spirv-val has against a module; nothing if it accepts it.
fn refusal(words: &[u32]) -> std::io::Result<Option<String>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    spirv_val(&bytes)
}

#[test]
fn whatever_the_validator_accepts_spirv_val_accepts() {
    match refusal(&vector_add()) {
        Ok(found) => assert_eq!(found, None, "spirv-val refuses vector_add"),
        Err(error) => return left_out("spirv-val", &format!("it does not start: {error}")),
    }
    let count = match std::env::var_os("HLX_EXHAUSTIVE") {
        Some(_) => MUTANTS_EXHAUSTIVE,
        None => MUTANTS,
    };
    let originals = Original::all();
    let (next, accepted) = (AtomicU32::new(0), AtomicU32::new(0));
    let work = || {
        let mut refused = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return refused;
            }
            let original = &originals[number as usize % originals.len()];
            let mutant = original.mutant(number);
            let same = mutant == original.words;
            if same || validate(&mutant, "main").is_err() || has_newer_language(&mutant) {
                continue;
            }
            accepted.fetch_add(1, Ordering::Relaxed);
            if let Some(messages) = refusal(&mutant).expect("spirv-val runs") {
                let first = messages.lines().next().unwrap_or_default();
                refused.push(format!("{}, mutant {number}: {first}", original.name));
            }
        }
    };
    let refused: Vec<String> = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let own = work();
        [own, other.join().expect("no panic")].concat()
    });
    assert!(
        refused.is_empty(),
        "spirv-val refuses {} of {accepted:?} accepted mutants:\n{}",
        refused.len(),
        refused.join("\n")
    );
    let accepted = accepted.into_inner();
    assert!(
        accepted > count / 20,
        "only {accepted} of {count} mutants are accepted"
    );
}
