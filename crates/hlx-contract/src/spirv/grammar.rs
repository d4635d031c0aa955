//! The instructions that contracts may use.
//!
//! "SPIR-V Specification", section 3.42. What is not in the table is refused: images, matrices,
//! forward pointers, and what belongs to graphics or to OpenCL. `hlx_spirv` reads their words.

/// Whether contracts take an instruction.
pub(super) fn accepts(opcode: u16) -> bool {
    TABLE.binary_search(&opcode).is_ok()
}

/// Refuses memory operands other than Volatile, Aligned and Nontemporal.
pub(super) fn check_memory(opcode: u16, operands: &[u32]) -> Result<(), String> {
    const ALIGNED: u32 = 2;
    const KNOWN: u32 = 1 | ALIGNED | 4;
    let mut masks = match opcode {
        op::Load => operands.get(3..),
        op::Store | op::CopyMemory => operands.get(2..),
        _ => None,
    }
    .unwrap_or(&[]);
    while let Some((&mask, rest)) = masks.split_first() {
        if mask & !KNOWN != 0 {
            return Err(format!("memory operands {mask:#x} are not supported"));
        }
        let skipped = usize::from(mask & ALIGNED != 0);
        masks = rest.get(skipped..).unwrap_or(&[]);
    }
    Ok(())
}

macro_rules! table {
    ($($name:ident)+) => {
        /// The opcodes, ascending.
        static TABLE: &[u16] = &[$(hlx_spirv::spirv::Op::$name as u16),+];

        /// The opcodes by name.
        #[allow(non_upper_case_globals, dead_code)]
        pub(super) mod op {
            $(pub const $name: u16 = hlx_spirv::spirv::Op::$name as u16;)+
        }
    };
}

table! {
    Nop
    Undef
    SourceContinued
    Source
    SourceExtension
    Name
    MemberName
    String
    Line
    Extension
    ExtInstImport
    ExtInst
    MemoryModel
    EntryPoint
    ExecutionMode
    Capability
    TypeVoid
    TypeBool
    TypeInt
    TypeFloat
    TypeVector
    TypeArray
    TypeRuntimeArray
    TypeStruct
    TypePointer
    TypeFunction
    ConstantTrue
    ConstantFalse
    Constant
    ConstantComposite
    ConstantNull
    SpecConstantTrue
    SpecConstantFalse
    SpecConstant
    SpecConstantComposite
    SpecConstantOp
    Function
    FunctionParameter
    FunctionEnd
    FunctionCall
    Variable
    Load
    Store
    CopyMemory
    AccessChain
    InBoundsAccessChain
    ArrayLength
    Decorate
    MemberDecorate
    VectorExtractDynamic
    VectorInsertDynamic
    VectorShuffle
    CompositeConstruct
    CompositeExtract
    CompositeInsert
    CopyObject
    ConvertFToU
    ConvertFToS
    ConvertSToF
    ConvertUToF
    UConvert
    SConvert
    FConvert
    QuantizeToF16
    Bitcast
    SNegate
    FNegate
    IAdd
    FAdd
    ISub
    FSub
    IMul
    FMul
    UDiv
    SDiv
    FDiv
    UMod
    SRem
    SMod
    FRem
    FMod
    VectorTimesScalar
    Dot
    IAddCarry
    ISubBorrow
    UMulExtended
    SMulExtended
    Any
    All
    IsNan
    IsInf
    LogicalEqual
    LogicalNotEqual
    LogicalOr
    LogicalAnd
    LogicalNot
    Select
    IEqual
    INotEqual
    UGreaterThan
    SGreaterThan
    UGreaterThanEqual
    SGreaterThanEqual
    ULessThan
    SLessThan
    ULessThanEqual
    SLessThanEqual
    FOrdEqual
    FUnordEqual
    FOrdNotEqual
    FUnordNotEqual
    FOrdLessThan
    FUnordLessThan
    FOrdGreaterThan
    FUnordGreaterThan
    FOrdLessThanEqual
    FUnordLessThanEqual
    FOrdGreaterThanEqual
    FUnordGreaterThanEqual
    ShiftRightLogical
    ShiftRightArithmetic
    ShiftLeftLogical
    BitwiseOr
    BitwiseXor
    BitwiseAnd
    Not
    BitFieldInsert
    BitFieldSExtract
    BitFieldUExtract
    BitReverse
    BitCount
    ControlBarrier
    MemoryBarrier
    AtomicLoad
    AtomicStore
    AtomicExchange
    AtomicCompareExchange
    AtomicIIncrement
    AtomicIDecrement
    AtomicIAdd
    AtomicISub
    AtomicSMin
    AtomicUMin
    AtomicSMax
    AtomicUMax
    AtomicAnd
    AtomicOr
    AtomicXor
    Phi
    LoopMerge
    SelectionMerge
    Label
    Branch
    BranchConditional
    Switch
    Return
    ReturnValue
    Unreachable
    NoLine
    ModuleProcessed
    GroupNonUniformElect
    GroupNonUniformAll
    GroupNonUniformAny
    GroupNonUniformBroadcast
    GroupNonUniformBroadcastFirst
    GroupNonUniformBallot
    GroupNonUniformShuffle
    GroupNonUniformShuffleXor
    GroupNonUniformShuffleUp
    GroupNonUniformShuffleDown
    CopyLogical
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_ascend() {
        assert!(TABLE.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(accepts(op::FAdd) && !accepts(5345));
    }

    #[test]
    fn memory_operands_are_bounded() {
        // Aligned with its 4, then Nontemporal for the second.
        assert_eq!(check_memory(op::CopyMemory, &[1, 2, 2, 4, 4]), Ok(()));
        assert!(check_memory(op::CopyMemory, &[1, 2, 2, 4, 8]).is_err());
        assert!(check_memory(op::Load, &[1, 2, 3, 0x20]).is_err());
        assert_eq!(check_memory(op::Store, &[1, 2]), Ok(()));
    }
}
