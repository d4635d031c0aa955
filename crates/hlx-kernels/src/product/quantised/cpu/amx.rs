//! AMX: products of matrices of 16 rows of 64 bytes by 64 x 16 bytes, in eight registers of a kilobyte.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

use hlx_core::cpu::SimdLevel;

use super::instructions::{Instructions, MAX_TILE, Packed, pack_digits};

/// A row's bytes in its strip, \[k / 64, 2, 16 rows, 64\]; its sums are too large by nothing.
fn pack_row(row: usize, digits: [&[i8]; 2], strip: &mut [i32]) -> [i32; 2] {
    let strip: &mut [i8] = bytemuck::cast_slice_mut(strip);
    let [high, low] = digits.map(|digits| digits.as_chunks::<64>().0);
    for ((high, low), to) in high.iter().zip(low).zip(strip.chunks_exact_mut(2048)) {
        to[64 * row..][..64].copy_from_slice(high);
        to[1024 + 64 * row..][..64].copy_from_slice(low);
    }
    [0; 2]
}

/// The bytes of columns, \[k / 64, 2, 16, 16 columns, 4\].
fn pack_columns(level: SimdLevel, columns: &[&[i8]], panel: &mut [i32]) {
    pack_digits(level, columns, 0, [512, 16], 256, panel);
}

/// The instructions, if the processor has them at the level and lets this process use them.
pub(super) fn instructions(level: SimdLevel) -> Option<Instructions> {
    (level == SimdLevel::Avx512 && is_granted()).then_some(Instructions {
        names: ["products of bytes", "AMX"],
        level,
        tile: MAX_TILE,
        // A panel is 64 KiB then.
        block: 2048,
        terms_of_word: 4,
        registers: [configure, release],
        pack_row,
        pack_columns,
        multiply,
    })
}

/// Whether the processor has AMX for bytes and the system lets this process use it.
fn is_granted() -> bool {
    static GRANTED: OnceLock<bool> = OnceLock::new();
    *GRANTED.get_or_init(|| has_amx() && ask())
}

/// Whether the processor has the instructions and the system saves the registers.
fn has_amx() -> bool {
    /// Of XCR0: the registers' configuration and their data.
    const SAVED: u32 = 3 << 17;
    /// Of leaf 7: AMX-TILE and AMX-INT8.
    const HAS: u32 = 3 << 24;
    const OSXSAVE: u32 = 1 << 27;
    if cfg!(miri) || __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let saved: u32;
    // SAFETY: the system has enabled XGETBV, which reads a register.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") saved, out("edx") _, options(nomem, nostack));
    }
    __cpuid_count(7, 0).edx & HAS == HAS && saved & SAVED == SAVED
}

/// Asks for the registers' data: Linux saves them only for processes that have.
#[cfg(target_os = "linux")]
fn ask() -> bool {
    const ARCH_PRCTL: u64 = 158;
    const REQUEST_PERMISSION: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let status: u64;
    // SAFETY: a system call of two numbers that touches no memory of this process.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => status,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    status == 0
}

/// Other systems are not known to be asked.
#[cfg(not(target_os = "linux"))]
fn ask() -> bool {
    false
}

/// Configures this thread's registers, each 16 rows of 64 bytes.
fn configure() {
    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        bytes_of_row: [u16; 16],
        rows: [u8; 16],
    }
    let of_eight = |i: usize, value: u8| if i < 8 { value } else { 0 };
    let configuration = Configuration {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        bytes_of_row: std::array::from_fn(|i| of_eight(i, 64).into()),
        rows: std::array::from_fn(|i| of_eight(i, 16)),
    };
    // SAFETY: the instruction reads the 64 bytes of a valid configuration; the process was granted the registers.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, readonly)) };
}

fn release() {
    // SAFETY: no other code of this thread uses the registers.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// Adds 16 x 32 products of either digit to their sums, \[2, 16, 32\].
///
/// # Safety
/// The registers are configured; operands and sums have the lengths of a tile, and `k` is a multiple of 64.
unsafe fn multiply(_: SimdLevel, packed: &Packed<'_>, sums: &mut [i32]) {
    if packed.begins {
        sums.fill(0);
    }
    // SAFETY: each round reads 2,048 bytes of either operand, which have as many for 64 terms; the sums are 4,096 bytes.
    unsafe {
        asm!(
            "tileloadd tmm0, [{sums} + {row}]",
            "tileloadd tmm1, [{sums} + {row} + 64]",
            "tileloadd tmm2, [{sums} + {row} + 2048]",
            "tileloadd tmm3, [{sums} + {row} + 2112]",
            "2:",
            "tileloadd tmm6, [{right} + {unit}]",
            "tileloadd tmm4, [{left} + {unit}]",
            "tdpbssd tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{right} + {unit} + 1024]",
            "tdpbssd tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{left} + {unit} + 1024]",
            "tdpbssd tmm2, tmm5, tmm6",
            "tdpbssd tmm3, tmm5, tmm7",
            "add {left}, 2048",
            "add {right}, 2048",
            "dec {rounds}",
            "jnz 2b",
            "tilestored [{sums} + {row}], tmm0",
            "tilestored [{sums} + {row} + 64], tmm1",
            "tilestored [{sums} + {row} + 2048], tmm2",
            "tilestored [{sums} + {row} + 2112], tmm3",
            sums = in(reg) sums.as_mut_ptr(),
            row = in(reg) 128_usize,
            left = inout(reg) packed.left.as_ptr() => _,
            right = inout(reg) packed.right.as_ptr() => _,
            unit = in(reg) 64_usize,
            rounds = inout(reg) packed.k / 64 => _,
            out("tmm0") _,
            out("tmm1") _,
            out("tmm2") _,
            out("tmm3") _,
            out("tmm4") _,
            out("tmm5") _,
            out("tmm6") _,
            out("tmm7") _,
            options(nostack),
        );
    }
}
