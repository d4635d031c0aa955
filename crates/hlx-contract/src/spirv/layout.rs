//! How blocks lie in memory: offsets and strides by Vulkan's std430 rules.
//!
//! "Vulkan Specification", "Offset and Stride Assignment", with relaxed block layout.

use super::module::Module;
use super::types::{Scalar, Type, Types, constant_word, decoration};

/// A scalar that memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// A truth value; only among specialization constants.
    Bool,
    /// An unsigned integer of 32 bits.
    U32,
    /// A signed integer of 32 bits.
    I32,
    /// A float of 32 bits.
    F32,
    /// 64 bits of anything.
    Wide,
}

impl ScalarKind {
    /// The kind of a scalar of 32 bits or fewer.
    pub(super) fn of(scalar: Scalar) -> Option<Self> {
        match scalar {
            Scalar::Bool => Some(Self::Bool),
            Scalar::Int {
                width: 32,
                signed: false,
            } => Some(Self::U32),
            Scalar::Int {
                width: 32,
                signed: true,
            } => Some(Self::I32),
            Scalar::Float { width: 32 } => Some(Self::F32),
            _ => None,
        }
    }

    /// Its name in messages and contracts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Wide => "64 bits",
        }
    }
}

/// Where the scalars of a block lie.
pub(super) struct Layout {
    /// Kinds of scalars in it.
    pub kinds: Vec<ScalarKind>,
    /// Bytes up to the end of its fixed part.
    pub min_bytes: u64,
    /// The words of a block of fixed size, `None` for padding.
    pub words: Option<Vec<Option<ScalarKind>>>,
    pub n_members: u32,
}

/// Blocks of fixed size are written out up to here, which is more than push constants may have.
const MAX_WORDS: u64 = 1024;

/// A type's place: how it is aligned, and its bytes without padding after.
#[derive(Clone, Copy)]
struct Extent {
    alignment: u64,
    bytes: u64,
}

struct Reader<'a> {
    module: &'a Module,
    types: &'a Types,
    kinds: Vec<ScalarKind>,
    words: Vec<Option<ScalarKind>>,
}

impl Layout {
    /// Reads and checks the layout of a block.
    pub fn of_block(module: &Module, types: &Types, block: u32) -> Result<Self, String> {
        let Type::Struct { members } = types.get(block)? else {
            return Err(format!("type %{block} is no structure"));
        };
        if types.holds_bool(block) {
            return Err("a truth value in a block".to_owned());
        }
        let runtime = members
            .iter()
            .any(|&m| matches!(types.get(m), Ok(Type::RuntimeArray { .. })));
        let mut reader = Reader {
            module,
            types,
            kinds: Vec::new(),
            words: Vec::new(),
        };
        let extent = reader.place(block, 0)?;
        let whole = extent.bytes.next_multiple_of(4);
        let fixed = !runtime && whole <= 4 * MAX_WORDS;
        reader
            .words
            .resize((whole.min(4 * MAX_WORDS) / 4) as usize, None);
        Ok(Self {
            kinds: reader.kinds,
            min_bytes: extent.bytes,
            words: fixed.then_some(reader.words),
            n_members: members.len() as u32,
        })
    }
}

impl Reader<'_> {
    /// Checks a type that lies at this offset of the block, and marks its scalars.
    fn place(&mut self, id: u32, offset: u64) -> Result<Extent, String> {
        if let Some((scalar, count)) = self.types.shape(id) {
            return self.vector(scalar, count, offset);
        }
        match self.types.get(id)?.clone() {
            Type::Struct { members } => self.structure(id, &members, offset),
            Type::Array { element, length } => {
                let length = constant_word(self.module, length);
                let length = length.ok_or("an array of specialized length in a block")?;
                self.array(id, element, u64::from(length), offset)
            }
            // It may have no elements.
            Type::RuntimeArray { element } => {
                let extent = self.array(id, element, 1, offset)?;
                Ok(Extent { bytes: 0, ..extent })
            }
            _ => Err(format!("type %{id} in a block")),
        }
    }

    fn vector(&mut self, scalar: Scalar, count: u32, offset: u64) -> Result<Extent, String> {
        let of_scalar = u64::from(scalar.width() / 8);
        let bytes = of_scalar * u64::from(count);
        let kind = ScalarKind::of(scalar).unwrap_or(ScalarKind::Wide);
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
        let crosses = bytes <= 16 && offset / 16 != (offset + bytes - 1) / 16;
        let skewed = bytes > 16 && !offset.is_multiple_of(16);
        if !offset.is_multiple_of(of_scalar) || crosses || skewed {
            return Err(format!(
                "a vector or scalar at offset {offset}, which does not suit it"
            ));
        }
        for place in offset / 4..(offset + bytes) / 4 {
            if place < MAX_WORDS {
                let place = place as usize;
                self.words.resize(self.words.len().max(place + 1), None);
                self.words[place] = Some(kind);
            }
        }
        // The relaxation is one of a vector's own place: arrays and structures of vectors lie as the vectors would.
        let alignment = of_scalar * u64::from(count.next_power_of_two());
        Ok(Extent { alignment, bytes })
    }

    fn structure(&mut self, id: u32, members: &[u32], start: u64) -> Result<Extent, String> {
        let (mut end, mut alignment) = (0, 1);
        for (place, &member) in members.iter().enumerate() {
            let offset = self
                .module
                .member_decoration(id, place as u32, decoration::OFFSET);
            let offset = offset.ok_or_else(|| format!("member {place} of %{id} has no offset"))?;
            if u64::from(offset) < end {
                return Err(format!("member {place} of %{id} overlaps the one before"));
            }
            let extent = self.place(member, start + u64::from(offset))?;
            end = u64::from(offset).saturating_add(extent.bytes);
            alignment = alignment.max(extent.alignment);
        }
        if !start.is_multiple_of(alignment) {
            return Err(format!(
                "structure %{id} at offset {start}, which does not suit it"
            ));
        }
        Ok(Extent {
            alignment,
            bytes: end,
        })
    }

    fn array(&mut self, id: u32, element: u32, length: u64, offset: u64) -> Result<Extent, String> {
        let stride = self.module.decoration(id, decoration::ARRAY_STRIDE);
        let stride = u64::from(stride.ok_or_else(|| format!("array %{id} has no stride"))?);
        let mut extent = self.place(element, offset)?;
        if stride < extent.bytes || stride == 0 || !stride.is_multiple_of(extent.alignment) {
            return Err(format!(
                "array %{id} has a stride of {stride} bytes, which does not suit it"
            ));
        }
        if !offset.is_multiple_of(extent.alignment) {
            return Err(format!(
                "array %{id} at offset {offset}, which does not suit it"
            ));
        }
        // The second element shows how the others lie; words are marked for the first ones.
        let shown = length.min(MAX_WORDS);
        for place in 1..shown {
            let at = offset.saturating_add(place * stride);
            if place > 4 && at > 4 * MAX_WORDS {
                break;
            }
            self.place(element, at)?;
        }
        if length == 0 {
            return Err(format!("array %{id} has no elements"));
        }
        extent.bytes = (length - 1)
            .saturating_mul(stride)
            .saturating_add(extent.bytes);
        Ok(extent)
    }
}
