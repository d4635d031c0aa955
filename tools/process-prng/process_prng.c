// bcryptprimitives.dll for Wine releases that lack it: the one function that Rust's standard
// library imports from it. `cargo xtask ports` builds it beside the program; Windows has its own.
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size); // RtlGenRandom, in advapi32

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    while (size > 0) {
        ULONG part = size > 65536 ? 65536 : (ULONG)size;
        if (!SystemFunction036(data, part)) {
            return FALSE;
        }
        data += part;
        size -= part;
    }
    return TRUE;
}
