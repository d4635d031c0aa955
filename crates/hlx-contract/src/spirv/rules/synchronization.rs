//! Barriers, atomics and subgroup operations: scopes, memory semantics and operand types.

use super::{Checked, Rules, ensure, is_int, is_unsigned};
use crate::spirv::grammar::op;
use crate::spirv::module::Instruction;
use crate::spirv::types::{Scalar, class, constant_word, is_constant};

pub(super) const WORKGROUP: u32 = 2;
pub(super) const SUBGROUP: u32 = 3;
/// Device, workgroup, subgroup, invocation.
pub(super) const SCOPES: [u32; 4] = [1, WORKGROUP, SUBGROUP, 4];

const ACQUIRE: u32 = 2;
const RELEASE: u32 = 4;
const ACQUIRE_RELEASE: u32 = 8;

impl Rules<'_> {
    /// A scope: an integer constant, one of `known`.
    pub(super) fn scope(&self, id: u32, known: &[u32]) -> Checked {
        let scope = self.constant(id)?;
        ensure(known.contains(&scope), || {
            format!("scope {scope} is not supported")
        })
    }

    /// Memory semantics: an order, but none of `denied`, and the storage that it is about.
    pub(super) fn semantics(&self, id: u32, denied: u32) -> Checked {
        const ORDERS: u32 = ACQUIRE | RELEASE | ACQUIRE_RELEASE;
        const STORAGE: u32 = 0x40 | 0x100 | 0x800;
        const IGNORED: u32 = 0x80 | 0x200 | 0x400;
        let semantics = self.constant(id)?;
        let known = semantics & !(ORDERS | STORAGE | IGNORED) == 0;
        let order = semantics & ORDERS;
        let one = order & denied == 0 && order.count_ones() <= 1;
        let about = (order == 0) == (semantics & STORAGE == 0);
        ensure(known && one && about, || {
            format!("memory semantics {semantics:#x} are not supported")
        })
    }

    /// The value of an integer constant of 32 bits.
    fn constant(&self, id: u32) -> Result<u32, String> {
        let int = self.shape(id).is_ok_and(|s| is_int(s) && s.1 == 1);
        let word = constant_word(self.module, id).filter(|_| int);
        word.ok_or_else(|| format!("%{id} is no integer constant"))
    }

    pub(super) fn atomic(&self, instruction: &Instruction) -> Checked {
        let used = &instruction.ids.used;
        let (class, pointee) = self.pointer(used[0])?;
        let shared = matches!(
            class,
            class::STORAGE_BUFFER | class::UNIFORM | class::WORKGROUP
        );
        let word = matches!(
            self.types.shape(pointee),
            Some((Scalar::Int { width: 32, .. }, 1))
        );
        ensure(shared && word, || {
            "atomics work on 32-bit integers in storage buffers and shared memory".to_owned()
        })?;
        self.scope(used[1], &SCOPES)?;
        let denied = match instruction.opcode {
            op::AtomicLoad => RELEASE | ACQUIRE_RELEASE,
            op::AtomicStore => ACQUIRE | ACQUIRE_RELEASE,
            _ => 0,
        };
        self.semantics(used[2], denied)?;
        let exchanges = instruction.opcode == op::AtomicCompareExchange;
        if exchanges {
            self.semantics(used[3], RELEASE | ACQUIRE_RELEASE)?;
        }
        let scopes = if exchanges { 3 } else { 2 };
        let values = &used[scopes + 1..];
        let typed = values.iter().all(|&id| self.value(id) == Ok(pointee));
        let made = instruction.opcode == op::AtomicStore || instruction.ids.result_type == pointee;
        ensure(typed && made, || {
            "its values do not have the pointer's type".to_owned()
        })
    }

    pub(super) fn group(&self, instruction: &Instruction) -> Checked {
        let (used, result) = (&instruction.ids.used, instruction.ids.result_type);
        let scope = constant_word(self.module, used[0]);
        ensure(scope == Some(SUBGROUP), || {
            "its scope is not the subgroup".to_owned()
        })?;
        let made = self.types.shape(result);
        let truth = Some((Scalar::Bool, 1));
        let index = |id: u32| self.shape(id).is_ok_and(|s| is_unsigned(s) && s.1 == 1);
        let holds = match instruction.opcode {
            op::GroupNonUniformElect => made == truth,
            op::GroupNonUniformAll | op::GroupNonUniformAny => {
                made == truth && Some(self.shape(used[1])?) == truth
            }
            op::GroupNonUniformBallot => {
                made == Some((
                    Scalar::Int {
                        width: 32,
                        signed: false,
                    },
                    4,
                )) && Some(self.shape(used[1])?) == truth
            }
            op::GroupNonUniformBroadcastFirst => made == Some(self.shape(used[1])?),
            op::GroupNonUniformBroadcast => {
                made == Some(self.shape(used[1])?)
                    && is_constant(self.module, used[2])
                    && index(used[2])
            }
            _ => made == Some(self.shape(used[1])?) && index(used[2]),
        };
        ensure(holds, || {
            "its operands do not have the types that it takes".to_owned()
        })
    }
}
