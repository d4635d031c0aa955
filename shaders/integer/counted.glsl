// Which rows of matrices enter the largest magnitudes of columns: where COUNTED is above 0, those of which this many exponents
// (of prepare_rows or counted_rows) are not all those of zeros.
layout(constant_id = 3) const uint COUNTED = 0;

layout(set = 0, binding = COUNTED_BINDING) readonly restrict buffer Counted { int counted[]; };

bool counts(uint outer, uint row) {
    if (COUNTED == 0u || row >= push.k) return true;
    for (uint i = 0u; i < COUNTED; ++i)
        if (counted[(outer * push.k + row) * COUNTED + i] != HLX_EXPONENT_OF_ZEROS) return true;
    return false;
}
