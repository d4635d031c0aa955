//! What HLX's arithmetic allows in machine code (docs/numerics.md); everything else on floats is a breach.

use crate::assembly::{Operation, operations};

/// What a listing was searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is forbidden, one line each: the line of the listing, the instruction and the reason.
    pub breaches: Vec<String>,
    /// Divisions of integers, each with an approximate reciprocal that is corrected afterwards.
    pub divisions: usize,
}

/// 2^32 less a few units of the last place: by it a division of integers multiplies its reciprocal.
const SCALE: &str = "0x4f7ffffe";

/// Operations on f32 that round once or not at all, without the prefix of their unit.
const EXACT: [&str; 20] = [
    "add_f32",
    "sub_f32",
    "subrev_f32",
    "mul_f32",
    "fma_f32",
    "fmac_f32",
    "fmaak_f32",
    "fmamk_f32",
    "trunc_f32",
    "floor_f32",
    "ceil_f32",
    "rndne_f32",
    "cvt_f32_u32",
    "cvt_f32_i32",
    "cvt_u32_f32",
    "cvt_i32_f32",
    "cvt_f32_ubyte0",
    "cvt_f32_ubyte1",
    "cvt_f32_ubyte2",
    "cvt_f32_ubyte3",
];

/// Multiply-adds that round twice, as a product and a sum do: right where a shader has those.
const UNFUSED: [&str; 6] = [
    "mad_f32",
    "mac_f32",
    "madak_f32",
    "madmk_f32",
    "mad_legacy_f32",
    "mac_legacy_f32",
];

/// What forbidden instructions have in common, by a part of their name, and why they are forbidden.
const REASONS: [(&str, &str); 16] = [
    ("_f16", "arithmetic of 16 bits"),
    ("bf16", "arithmetic of 16 bits"),
    ("_f64", "arithmetic of 64 bits"),
    (
        "rcp_",
        "an approximate reciprocal outside of a division of integers",
    ),
    ("rsq_", "an approximate function"),
    ("sqrt_", "an approximate function"),
    ("exp_", "an approximate function"),
    ("log_", "an approximate function"),
    ("sin_", "an approximate function"),
    ("cos_", "an approximate function"),
    ("min", "what it returns of NaN and of zeros is the chip's"),
    ("max", "what it returns of NaN and of zeros is the chip's"),
    ("med3", "what it returns of NaN and of zeros is the chip's"),
    ("dot", "sums in an order of its own"),
    ("wmma", "sums in an order of its own"),
    ("atomic", "the order is the chip's"),
];

/// Whether a listing's multiply-adds round once. The driver decides it by chip: `fma` of a shader may
/// become either kind.
pub fn fuses(listing: &str) -> bool {
    let found = operations(listing);
    !found.iter().any(|one| UNFUSED.contains(&core(&one.name)))
}

/// Searches a listing. `fused` says whether the shader's multiply-adds are the chip's; otherwise it
/// emulates them by products and sums, and may have no other multiply-adds than those that round twice.
pub fn search(listing: &str, fused: bool) -> Findings {
    let found = operations(listing);
    let mut findings = Findings::default();
    for (idx, operation) in found.iter().enumerate() {
        if core(&operation.name).starts_with("rcp_") && divides(&found, idx) {
            findings.divisions += 1;
            continue;
        }
        if let Some(reason) = judge(operation, fused) {
            let (line, text) = (operation.line, operation.text);
            findings
                .breaches
                .push(format!("line {line}: `{text}`: {reason}"));
        }
    }
    findings
}

/// A name without the unit that computes it.
fn core(name: &str) -> &str {
    let prefixes = ["v_pk_", "v_s_", "v_", "s_"];
    let stripped = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    stripped.unwrap_or(name)
}

/// Why an operation is forbidden, if it is.
fn judge(operation: &Operation<'_>, fused: bool) -> Option<&'static str> {
    let name = core(&operation.name);
    if ["setreg", "denorm_mode", "round_mode"]
        .iter()
        .any(|mode| name.starts_with(mode))
    {
        return Some("changes how floats are rounded or flushed");
    }
    let is_matrix = name.starts_with("dot") || name.starts_with("wmma");
    let on_floats = ["f32", "f16", "f64", "bf16", "fp8", "bf8"];
    let is_float = name.split('_').any(|part| on_floats.contains(&part));
    let has = |modifiers: &[&str]| operation.operands.iter().any(|o| modifiers.contains(o));
    if (is_matrix || is_float) && has(&["clamp", "mul:2", "mul:4", "div:2"]) {
        return Some("a modifier of the result");
    }
    let compares = (name.starts_with("cmp") || name.starts_with("cmpx")) && name.ends_with("_f32");
    let class = name.starts_with("cmp_class") || name.starts_with("cmpx_class");
    if !is_float || compares || class {
        return None;
    }
    if name.starts_with("fm") && !fused {
        return Some("a multiply-add of what the shader computes in two steps");
    }
    let rounds_twice = UNFUSED.contains(&name);
    if EXACT.contains(&name) || (rounds_twice && !fused) {
        return None;
    }
    if rounds_twice {
        return Some("a multiply-add that rounds twice");
    }
    let reason = REASONS.iter().find(|(part, _)| name.contains(part));
    Some(reason.map_or("not among the exact instructions", |(_, reason)| reason))
}

/// Whether the reciprocal at `idx` is a step of a division of integers: of a converted integer, then
/// multiplied by [`SCALE`] and converted back. The driver's sequence corrects the quotient by its
/// remainder, all in integers.
fn divides(found: &[Operation<'_>], idx: usize) -> bool {
    let [to, from] = found[idx].operands[..] else {
        return false;
    };
    let before = found[..idx].iter().rev().find(|one| one.writes(from));
    let of_integer = before.is_some_and(|one| {
        ["cvt_f32_u32", "cvt_f32_ubyte"]
            .iter()
            .any(|name| core(&one.name).starts_with(name))
    });
    let Some(scaled) = reader(found, idx, to) else {
        return false;
    };
    let by_scale = core(&found[scaled].name) == "mul_f32"
        && found[scaled].operands[1..]
            .iter()
            .any(|operand| is_scale(&found[..scaled], operand));
    let back = reader(found, scaled, found[scaled].operands[0]);
    of_integer && by_scale && back.is_some_and(|at| core(&found[at].name) == "cvt_u32_f32")
}

/// The next operation after `idx` that reads a register.
fn reader(found: &[Operation<'_>], idx: usize, register: &str) -> Option<usize> {
    let later = found.iter().enumerate().skip(idx + 1);
    let mut readers = later.filter(|(_, one)| one.reads(register));
    readers.next().map(|(at, _)| at)
}

/// Whether an operand is the constant, or a scalar register that holds it.
fn is_scale(before: &[Operation<'_>], operand: &str) -> bool {
    let held = before.iter().rev().find(|one| one.writes(operand));
    operand == SCALE || held.is_some_and(|one| one.name == "s_mov_b32" && one.operands[1] == SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(listing: &str) -> Vec<String> {
        search(listing, true).breaches
    }

    #[test]
    fn exact_instructions_pass() {
        for line in [
            "v_fma_f32 v1, v2, v3, v4 ; d6130001",
            "v_dual_fmac_f32 v1, v2, v3 :: v_dual_add_f32 v4, v5, v6 ; c8",
            "v_cmp_lt_f32_e32 vcc, v1, v2",
            "v_cmpx_nlt_f32_e64 v1, |v2|",
            "v_cmp_class_f32_e64 s[0:1], v1, 3",
            "v_sub_nc_u32_e64 v1, v2, v3 clamp",
            "v_min_u32_e32 v1, v2, v3",
            "v_dot4_i32_iu8 v1, v2, v3, v1 neg_lo:[1,1,0]",
            "v_wmma_i32_16x16x16_iu8 v[0:3], v[4:7], v[8:11], v[0:3]",
            "s_fmac_f32 s1, s2, s3",
            "BB1:",
        ] {
            assert_eq!(reasons(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn forbidden_instructions_are_named_with_their_line() {
        for (line, reason) in [
            ("v_rcp_f32_e32 v1, v2", "an approximate reciprocal outside"),
            (
                "v_rcp_iflag_f32_e32 v1, v2",
                "an approximate reciprocal outside",
            ),
            ("v_s_rcp_f32 s1, s2", "an approximate reciprocal outside"),
            ("v_rsq_f32_e32 v1, v2", "an approximate function"),
            ("v_s_exp_f32 s1, s2", "an approximate function"),
            ("v_mad_f32 v1, v2, v3, v4", "rounds twice"),
            ("v_mac_f32_e32 v1, v2, v3", "rounds twice"),
            ("v_max_f32_e32 v1, v2, v3", "NaN"),
            ("v_minimum_f32 v1, v2, v3", "NaN"),
            ("s_max_num_f32 s1, s2, s3", "NaN"),
            ("v_med3_f32 v1, v2, v3, v4", "NaN"),
            ("v_cvt_pkrtz_f16_f32 v1, v2, v3", "16 bits"),
            ("v_pk_fma_f16 v1, v2, v3, v4", "16 bits"),
            ("v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", "64 bits"),
            ("v_dot2_f32_bf16 v1, v2, v3, v4", "16 bits"),
            ("v_dot2_f32_f16 v1, v2, v3, v4", "16 bits"),
            (
                "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]",
                "16 bits",
            ),
            ("global_atomic_add_f32 v0, v1, s[0:1]", "the order"),
            ("ds_add_rtn_f32 v1, v2, v3", "not among"),
            ("v_add_f32_e64 v1, v2, v3 mul:2", "a modifier"),
            ("v_fma_f32 v1, v2, v3, v4 clamp", "a modifier"),
            ("v_dot4_i32_iu8 v1, v2, v3, v1 clamp", "a modifier"),
            ("v_mul_legacy_f32_e32 v1, v2, v3", "not among"),
            (
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0",
                "rounded or flushed",
            ),
            ("s_denorm_mode 15", "rounded or flushed"),
        ] {
            let found = reasons(&format!("BB0:\n\t{line} ; 7e000000"));
            assert_eq!(found.len(), 1, "{line}");
            assert!(
                found[0].starts_with(&format!("line 2: `{line}`: ")),
                "{}",
                found[0]
            );
            assert!(found[0].contains(reason), "{}", found[0]);
        }
    }

    #[test]
    fn a_multiply_add_is_forbidden_where_the_shader_emulates_it() {
        let listing = "v_fmac_f32_e32 v1, v2, v3";
        assert_eq!(search(listing, false).breaches.len(), 1);
        let twice = "v_mac_f32_e32 v1, v2, v3\nv_mad_f32 v1, v2, v3, v4";
        assert_eq!(search(twice, false).breaches, Vec::<String>::new());
        assert_eq!(search(twice, true).breaches.len(), 2);
        assert!(fuses(listing) && !fuses("v_mac_f32_e32 v1, v2, v3"));
    }

    const DIVISION: &str = "v_cvt_f32_u32_e32 v5, s7\nv_rcp_f32_e32 v5, v5\ns_waitcnt_depctr 0xfff\n\
        v_mul_f32_e32 v5, 0x4f7ffffe, v5\nv_cvt_u32_f32_e32 v5, v5";

    #[test]
    fn a_reciprocal_within_a_division_of_integers_is_counted() {
        let held = format!(
            "s_mov_b32 s1, 0x4f7ffffe\n{}",
            DIVISION.replace("f32_e32 v5, 0x4f7ffffe", "f32_e32 v5, s1")
        );
        let scalar = "s_cvt_f32_u32 s5, s7\nv_s_rcp_f32 s5, s5\ns_mul_f32 s5, s5, 0x4f7ffffe\ns_cvt_u32_f32 s5, s5";
        for listing in [DIVISION, &held, scalar] {
            let found = search(listing, true);
            assert_eq!((found.divisions, found.breaches), (1, vec![]), "{listing}");
        }
    }

    #[test]
    fn a_reciprocal_of_anything_else_is_a_breach() {
        for (what, with) in [
            ("v_cvt_f32_u32_e32 v5, s7", "v_mov_b32_e32 v5, s7"),
            ("0x4f7ffffe", "0x4f800000"),
            ("v_cvt_u32_f32_e32 v5, v5", "v_add_f32_e32 v5, v5, v6"),
        ] {
            let listing = DIVISION.replace(what, with);
            assert_eq!(search(&listing, true).breaches.len(), 1, "{listing}");
        }
    }
}
