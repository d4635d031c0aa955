//! What is compiled: each module with the specialization constants that HLX has given it.

use std::collections::BTreeMap;

use hlx_spirv::spirv::{Decoration, Op};

use crate::driver::Matrix;

/// The constants that say whether a device fuses and flushes by itself.
pub const MODES: [u32; 2] = [1000, 1001];
/// Threads of a subgroup in the defaults of modules of matrices.
const DEFAULT_SUBGROUP: u32 = 32;

/// One pipeline to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub module: String,
    pub words: Vec<u32>,
    /// Ids and words, by id, without the modes.
    pub constants: Vec<(u32, u32)>,
}

impl Job {
    /// The module and its constants, as a line of the list.
    pub fn name(&self) -> String {
        let constants = self
            .constants
            .iter()
            .map(|(id, word)| format!(" {id}={word}"));
        self.module.clone() + &constants.collect::<String>()
    }
}

/// The rows of `shaders/specializations.txt` by module.
pub type Rows = BTreeMap<String, Vec<Vec<(u32, u32)>>>;

/// Reads lines of `MODULE ID=WORD ID=WORD ...`; lines that begin with `#` say something.
pub fn rows(text: &str) -> Result<Rows, String> {
    let mut rows = Rows::new();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split(' ');
        let module = words.next().unwrap_or_default();
        let constant = |text: &str| {
            let (id, word) = text.split_once('=')?;
            Some((id.parse().ok()?, word.parse().ok()?))
        };
        let constants: Option<Vec<_>> = words.map(constant).collect();
        let constants = constants.ok_or_else(|| format!("no constants: `{line}`"))?;
        rows.entry(module.to_owned()).or_default().push(constants);
    }
    Ok(rows)
}

/// The constants that a module declares, with their defaults; those of truth values are 0 or 1.
pub fn declared(words: &[u32]) -> Result<BTreeMap<u32, u32>, String> {
    let module = hlx_spirv::read_declarations(words).map_err(|error| error.to_string())?;
    let mut defaults = BTreeMap::new();
    for one in &module {
        let default = match Op::from_u32(u32::from(one.opcode)) {
            Some(Op::SpecConstant) => one.words[2],
            Some(Op::SpecConstantTrue) => 1,
            Some(Op::SpecConstantFalse) => 0,
            _ => continue,
        };
        defaults.insert(one.ids.result, default);
    }
    let is_id = |i: &&hlx_spirv::Instruction| {
        i.opcode == Op::Decorate as u16 && i.words.get(1) == Some(&(Decoration::SpecId as u32))
    };
    let mut constants = BTreeMap::new();
    for one in module.iter().filter(is_id) {
        // glslang declares the constant of a workgroup's size a second time, with a default of 1.
        if let (Some(id), Some(&default)) = (one.words.get(2), defaults.get(&one.words[0])) {
            let known = constants.entry(*id).or_insert(default);
            *known = default.max(*known);
        }
    }
    Ok(constants)
}

/// Whether a module has cooperative matrices.
pub fn has_matrices(module: &str) -> bool {
    module.ends_with("matrices") || module.ends_with("matrices_words")
}

/// Whether a module has cooperative matrices of 16-bit floats.
pub fn has_half_matrices(module: &str) -> bool {
    module.ends_with("matrices_f16") || module.ends_with("matrices_bf16")
}

/// The pipelines of one module: one per row of the list, or the first alone.
///
/// A module without constants needs no row. One of matrices takes the rows of the module that has dot
/// products in their place, and the matrices of the chip.
pub fn of_module(
    module: &str,
    words: &[u32],
    rows: &Rows,
    matrix: Option<Matrix>,
    all: bool,
) -> Result<Vec<Job>, String> {
    let declared = declared(words)?;
    let sizes = sizes(module, &declared, matrix);
    let chosen: BTreeMap<u32, u32> = declared
        .into_iter()
        .filter(|(id, _)| !MODES.contains(id) && !sizes.iter().any(|(size, _)| size == id))
        .collect();
    let sibling = module
        .replace("matrices_words", "dots")
        .replace("matrices", "dots");
    let listed = match has_matrices(module) {
        true => rows.get(&sibling),
        false => rows.get(module),
    };
    let none = vec![Vec::new()];
    let listed = match (chosen.is_empty(), listed) {
        (true, _) => &none,
        (false, Some(listed)) => listed,
        (false, None) => {
            return Err(format!(
                "{module}: shaders/specializations.txt has no row; `cargo xtask test --pipelines` adds those of the tests"
            ));
        }
    };
    let job = |row: &Vec<(u32, u32)>| {
        let given = row.iter().filter(|(id, _)| chosen.contains_key(id));
        let mut constants: Vec<_> = given.chain(&sizes).copied().collect();
        constants.sort_unstable();
        Job {
            module: module.to_owned(),
            words: words.to_vec(),
            constants,
        }
    };
    let mut jobs: Vec<Job> = listed.iter().map(job).collect();
    jobs.sort_by(|a, b| a.constants.cmp(&b.constants));
    jobs.dedup();
    if !all {
        jobs = vec![job(&listed[0])];
    }
    Ok(jobs)
}

/// The constants of a module of matrices that the chip decides: rows, columns, terms and threads.
fn sizes(module: &str, declared: &BTreeMap<u32, u32>, matrix: Option<Matrix>) -> Vec<(u32, u32)> {
    let Some(matrix) = matrix.filter(|_| has_matrices(module)) else {
        return Vec::new();
    };
    let subgroups = declared
        .get(&7)
        .map_or(1, |threads| threads / DEFAULT_SUBGROUP);
    vec![
        (4, matrix.rows),
        (5, matrix.columns),
        (6, matrix.terms),
        (7, matrix.subgroup * subgroups),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module that declares constants 0, 7 (of 128, and again of 1) and 1000.
    fn module() -> Vec<u32> {
        let header = [hlx_spirv::MAGIC, 0x0001_0500, 0, 20, 0];
        let decorate = |id, constant| [(4 << 16) | 71, id, 1, constant];
        let constant = |id, word| [(4 << 16) | 50, 1, id, word];
        [
            &header[..],
            &decorate(2, 0),
            &decorate(3, 7),
            &decorate(4, 1000),
            &decorate(5, 7),
            &[(4 << 16) | 21, 1, 32, 0],
            &constant(2, 5),
            &constant(3, 128),
            &constant(4, 1),
            &constant(5, 1),
        ]
        .concat()
    }

    const MATRIX: Matrix = Matrix {
        rows: 16,
        columns: 16,
        terms: 16,
        subgroup: 64,
    };

    #[test]
    fn each_row_of_a_module_is_a_pipeline() {
        let rows = rows("# what\na/b 0=3 9=4\na/b 0=1\na/b 0=3").expect("rows");
        let jobs = |all| of_module("a/b", &module(), &rows, None, all).expect("jobs");
        let names: Vec<String> = jobs(true).iter().map(Job::name).collect();
        assert_eq!(names, ["a/b 0=1", "a/b 0=3"]);
        assert_eq!(jobs(false)[0].name(), "a/b 0=3");
    }

    #[test]
    fn a_module_without_a_row_is_named() {
        let error = of_module("a/c", &module(), &Rows::new(), None, true).expect_err("no row");
        assert!(error.starts_with("a/c: "), "{error}");
        assert!(rows("a/b 0=x").is_err());
    }

    #[test]
    fn matrices_take_the_rows_of_dots_and_the_sizes_of_the_chip() {
        let rows = rows("a/b_dots 0=2").expect("rows");
        for name in ["a/b_matrices", "a/b_matrices_words"] {
            let jobs = of_module(name, &module(), &rows, Some(MATRIX), true).expect("jobs");
            assert_eq!(jobs[0].name(), format!("{name} 0=2 4=16 5=16 6=16 7=256"));
        }
    }
}
