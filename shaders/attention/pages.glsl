// Where the blocks of 32 keys of a sample lie: side by side in rows of their own, or, where PAGED, in the pages of a pool.
// Page pages[sample, b] has block b, of PAGE_BLOCKS a sample; blocks past the last one repeat it.
// The including file has PAGES_SLOT, the table's binding, if it takes pages, and the positions of a sample, PAGED_KEYS.
#define PAGE 32u
#ifdef PAGES_SLOT
layout(constant_id = 8) const bool PAGED = false;
layout(set = 0, binding = PAGES_SLOT) readonly restrict buffer Pages { uint pages[]; };
#define PAGE_BLOCKS ((PAGED_KEYS + PAGE - 1u) / PAGE)
uint page_of(uint sample_idx, uint key) {
    return pages[sample_idx * PAGE_BLOCKS + min(key / PAGE, PAGE_BLOCKS - 1u)];
}
#else
const bool PAGED = false;
uint page_of(uint sample_idx, uint key) { return 0u; }
#endif

// What the key at the start of a block, or at any place of it, is moved by in a pool of positions, modulo 2^32.
uint page_shift(uint sample_idx, uint key) {
    return PAGED ? (page_of(sample_idx, key) - key / PAGE) * PAGE : 0u;
}
