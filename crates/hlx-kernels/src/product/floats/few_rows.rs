//! Products of few rows with a B stored `[N,K]`, such as a token's with a weight: the shaders that have
//! a chain per thread. The bits are those of the tiles.

use hlx_core::cpu::simd_level;
use hlx_core::{Binding, Buffer, DType, Device, Shader};

use super::prologue::Prologue;
use super::{Epilogue, FloatProduct, NAME, cpu};
use crate::Result;
use crate::elementwise::add_assign_chunk;
use crate::kernel::Kernel;
use crate::map::chunks1;
use crate::product::shape::MatMul;
use crate::product::tiles::Start;
use crate::tuning::KernelTuning;

shader!(matmul::{
    few_rows_8, few_rows_16, few_rows_8_normed as normed_8, few_rows_16_normed as normed_16,
    few_rows_8_gated as gated_8, few_rows_16_gated as gated_16,
});

/// Chains of a workgroup.
const CHAINS: usize = 128;
/// Bytes of shared memory that a row's norm takes at most.
const NORM_BYTES: usize = 4 * (128 + 32 + 8 + 1);
/// 16-byte units of a column that a workgroup loads at a time, and in shared memory, with padding.
const UNITS: usize = 32;
const COLUMN_UNITS: usize = UNITS + 1;

/// How a product is cut: columns of C a workgroup, for as many rows as its chains suffice for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// 8 columns of 16 rows.
    Narrow,
    /// 16 columns of 8 rows.
    Wide,
}

impl Cut {
    /// The cut that a device takes for a product; none where it is one for the tiles. More rows than a
    /// workgroup has are spread over several.
    pub fn choose(device: &Device, s: &MatMul, weight: DType) -> Option<Self> {
        let tuning = &KernelTuning::of(device).products;
        if device.is_cpu() {
            return None;
        }
        let limit = device.info().shared_memory_bytes as usize;
        let wide = s.n >= tuning.few_rows_wide_from[usize::from(s.m > 2)];
        let few = |cut: &Self| s.m <= cut.rows().min(tuning.few_rows_up_to);
        let cuts = [Self::Wide, Self::Narrow].into_iter();
        let cut = cuts
            .filter(|cut| wide || *cut == Self::Narrow)
            .filter(few)
            .find(|cut| cut.fits(s, weight, limit));
        let groups = s.m.div_ceil(Self::Narrow.rows()) * s.n.div_ceil(Self::Narrow.columns());
        let up_to = tuning.few_rows_split_groups[usize::from(weight == DType::F32)];
        let splits = s.m <= tuning.few_rows_split_up_to && groups <= up_to;
        cut.or((splits && Self::Narrow.fits(s, weight, limit)).then_some(Self::Narrow))
    }

    /// Whether a shader of this cut computes the product within so much shared memory.
    pub fn fits(self, s: &MatMul, weight: DType, shared_memory_bytes: usize) -> bool {
        let unit = unit_of(weight);
        let plain = s.batch == 1 && !s.trans_a && s.trans_b && !s.accumulate;
        plain
            && s.k > 0
            && s.k.is_multiple_of(unit)
            && self.shared_bytes(s, weight) <= shared_memory_bytes
    }

    fn shared_bytes(self, s: &MatMul, weight: DType) -> usize {
        let a_row = UNITS * unit_of(weight) / 4 + 1;
        2 * 16 * (self.columns() * COLUMN_UNITS + s.m.min(self.rows()) * a_row)
    }

    /// The rows of a workgroup.
    fn rows(self) -> usize {
        CHAINS / self.columns()
    }

    /// Whether what comes before the product fits into a device's shared memory too.
    pub fn takes_prologue(self, device: &Device, s: &MatMul, weight: DType) -> bool {
        let bytes = self.shared_bytes(s, weight) + s.m * NORM_BYTES;
        s.m <= KernelTuning::of(device).products.prologue_up_to
            && bytes <= device.info().shared_memory_bytes as usize
    }

    fn columns(self) -> usize {
        match self {
            Self::Narrow => 8,
            Self::Wide => 16,
        }
    }

    fn shader(self, prologue: Option<&Prologue<'_>>) -> &'static Shader {
        match (self, prologue) {
            (Self::Narrow, None) => &few_rows_8::SHADER,
            (Self::Wide, None) => &few_rows_16::SHADER,
            (Self::Narrow, Some(Prologue::RmsNorm { .. })) => &normed_8::SHADER,
            (Self::Wide, Some(Prologue::RmsNorm { .. })) => &normed_16::SHADER,
            (Self::Narrow, Some(Prologue::Gated { .. })) => &gated_8::SHADER,
            (Self::Wide, Some(Prologue::Gated { .. })) => &gated_16::SHADER,
        }
    }
}

/// Elements of 16 bytes.
fn unit_of(weight: DType) -> usize {
    4 * weight.per_word()
}

impl FloatProduct<'_> {
    /// Launches a checked product of few rows; an epilogue other than a sum as a launch of its own.
    pub(super) fn by_few_rows(&self, device: &Device, cut: Cut) -> Result<()> {
        match self.epilogue {
            Epilogue::None => self.launch_few(device, cut, None),
            Epilogue::Add(r) => self.launch_few(device, cut, Some(r)),
            _ => self.separately(device, |product| product.launch_few(device, cut, None)),
        }
    }

    fn launch_few(&self, device: &Device, cut: Cut, added: Option<&Buffer>) -> Result<()> {
        let (s, bias, prologue) = (self.shape, self.bias, self.prologue);
        let MatMul { m, n, k, .. } = s;
        let push = match prologue {
            Some(Prologue::RmsNorm { eps, .. }) => push!(normed_8 => m, n, k, eps),
            _ => push!(few_rows_8 => m, n, k),
        };
        let weight = self.b.dtype();
        let constants = constants!(0: weight.id(), Start::of(false, bias) as u32, added.is_some(),
            m.min(cut.rows()));
        let extra = prologue.map(|prologue| Binding::Read(prologue.operand()));
        let kernel = Kernel::new(NAME, cut.shader(prologue.as_ref()))
            .constants(constants)
            .reads([self.a, self.b])
            .reads_if(bias)
            .writes([self.c])
            .reads_if(added)
            .bind_all(extra)
            .flops(2 * (m * n * k) as u64);
        let groups = n.div_ceil(cut.columns()) * m.div_ceil(cut.rows());
        let (has_bias, adds) = (bias.is_some(), added.is_some());
        let prepare = prologue.map(|prologue| prologue.on_the_cpu(k));
        kernel.launch_bound(device, push, groups, move |bindings| {
            let (reads, mut writes) = bindings.split_all();
            let (&[a, b, bias, r, ref rest @ ..], [c]) = (&reads[..], &mut writes[..]) else {
                return;
            };
            let prepared = prepare.as_ref().map(|prepare| prepare(a, rest[0]));
            let a = prepared.as_deref().unwrap_or(a);
            let (b, bias) = ((b, weight), has_bias.then_some(bias));
            cpu::matmul(simd_level(), &s, a, b, bias, c);
            if adds {
                chunks1(r, c, add_assign_chunk);
            }
        })
    }
}
