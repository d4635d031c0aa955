//! Products of few rows with a B stored `[N,K]`, such as a token's with a weight: the shaders that have
//! a chain a thread. The bits are those of the tiles.

use hlx_core::cpu::simd_level;
use hlx_core::{Binding, Buffer, Context, DType, Launch, Shader, Work, groups_1d, push_bytes};

use super::{Epilogue, MatMul, NAME, START_BIAS, START_ZERO, cpu};
use crate::KernelError;
use crate::elementwise::add_assign_chunk;
use crate::map::chunks1;

shader!(few_rows_8, "matmul/few_rows_8");
shader!(few_rows_16, "matmul/few_rows_16");

use few_rows_8::Push;

/// Chains of a workgroup.
const CHAINS: usize = 128;
/// 16-byte units of a column that a workgroup loads at a time, and in shared memory, with padding.
const UNITS: usize = 32;
const COLUMN_UNITS: usize = UNITS + 1;

/// How a product is cut: columns of C a workgroup, for as many rows as its chains suffice for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// 8 columns, up to 16 rows.
    Narrow,
    /// 16 columns, up to 8 rows.
    Wide,
}

impl Cut {
    /// The cut that a device takes for a product; none where it is one for the tiles.
    pub fn choose(ctx: &Context, s: &MatMul, weight: DType) -> Option<Self> {
        let tuning = &ctx.tuning().products;
        if ctx.is_cpu() || s.m > tuning.few_rows_up_to {
            return None;
        }
        let wide = s.n >= tuning.few_rows_wide_from;
        let cuts = [Self::Wide, Self::Narrow].into_iter();
        cuts.filter(|cut| wide || *cut == Self::Narrow)
            .find(|cut| cut.fits(s, weight, ctx.info().shared_memory_bytes as usize))
    }

    /// Whether a shader of this cut computes the product within so much shared memory.
    pub fn fits(self, s: &MatMul, weight: DType, shared_memory_bytes: usize) -> bool {
        let unit = unit_of(weight);
        let a_row = UNITS * unit / 4 + 1;
        let shared = 2 * 16 * (self.columns() * COLUMN_UNITS + s.m * a_row);
        let plain = s.batch == 1 && !s.trans_a && s.trans_b && !s.accumulate;
        plain
            && s.k > 0
            && s.k.is_multiple_of(unit)
            && s.m <= CHAINS / self.columns()
            && shared <= shared_memory_bytes
    }

    fn columns(self) -> usize {
        match self {
            Self::Narrow => 8,
            Self::Wide => 16,
        }
    }

    fn shader(self) -> &'static Shader {
        match self {
            Self::Narrow => &few_rows_8::SHADER,
            Self::Wide => &few_rows_16::SHADER,
        }
    }
}

/// Elements of 16 bytes.
fn unit_of(weight: DType) -> usize {
    4 * weight.per_word()
}

/// Launches a checked product of few rows; an epilogue other than a sum as a launch of its own.
pub(super) fn few_rows(
    ctx: &Context,
    operands: [&Buffer; 2],
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &MatMul,
    cut: Cut,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    match epilogue {
        Epilogue::None => launch(ctx, operands, bias, c, shape, cut, None),
        Epilogue::Add(r) => launch(ctx, operands, bias, c, shape, cut, Some(r)),
        other => other.separately(ctx, c, false, |c| {
            launch(ctx, operands, bias, c, shape, cut, None)
        }),
    }
}

fn launch(
    ctx: &Context,
    [a, b]: [&Buffer; 2],
    bias: Option<&Buffer>,
    c: &Buffer,
    shape: &MatMul,
    cut: Cut,
    added: Option<&Buffer>,
) -> Result<(), KernelError> {
    let s = *shape;
    let start = bias.map_or(START_ZERO, |_| START_BIAS);
    let push = Push {
        n: s.n as u32,
        k: s.k as u32,
    };
    let launch = Launch {
        name: NAME,
        shader: cut.shader(),
        specialization: &[
            (0, b.dtype().id()),
            (1, start),
            (2, u32::from(added.is_some())),
            (3, s.m as u32),
        ],
        // Without a bias or a sum, any readable buffer is bound and not read.
        bindings: &[
            Binding::Read(a),
            Binding::Read(b),
            Binding::Read(bias.unwrap_or(b)),
            Binding::Write(c),
            Binding::Read(added.unwrap_or(b)),
        ],
        push: push_bytes(&push),
        groups: groups_1d(s.n.div_ceil(cut.columns())),
    };
    let work = Work {
        flops: 2 * (s.m * s.n * s.k) as u64,
        ..launch.work()
    };
    let (weight, has_bias, adds) = (b.dtype(), bias.is_some(), added.is_some());
    ctx.launch_counted(launch, work, move |bindings| {
        let ([a, b, bias, r], [c]) = bindings.split();
        let level = simd_level();
        cpu::matmul(level, &s, a, (b, weight), has_bias.then_some(bias), c);
        if adds {
            chunks1(r, c, add_assign_chunk);
        }
    })?;
    Ok(())
}
