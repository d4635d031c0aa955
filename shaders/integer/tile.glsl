// Where the results of a workgroup of a product over integers (finish.glsl) are: rows of A, rows of B, pieces of both, and
// the place of the first result in C. Which they are may be known on the device alone, by bounds:
//   BOUNDED 1: A has M rows; those from bounds[g] to bounds[g + 1] are multiplied with the N rows of B of group g, counted
//              from first_group on. The tiles of a group's rows follow those of the group before; the last workgroups,
//              of as many as there can be, have none.
//   BOUNDED 2: product i sums over the terms of group g = first_group + i alone, which begin at the unit
//              4 (bounds[g] / 64 + g) and are as many as its bounds say; a group is a piece, and has its own exponents.

struct Tile {
    // Rows of A and of B, and what they end before.
    uint a_first, a_end, b_first, b_end, first_piece, end_piece, in_c;
};
Tile tile;

// Units of a piece.
const uint PIECE = PIECE_TERMS / 16u;

// Exponents of a row.
uint pieces() { return BOUNDED == 2u ? push.n_groups : max((push.units + PIECE - 1u) / PIECE, 1u); }

// Rows of A, in each plane of digits.
uint rows_of_a() { return BOUNDED == 0u ? push.batch * push.m : push.m; }

// Rows of tiles of a product.
uint tiles_down(uint rows) {
    return BOUNDED == 1u ? push.m / rows + min(push.n_groups, push.m) : (push.m + rows - 1u) / rows;
}

// The units of a piece: the first, and the one behind the last.
uvec2 units_of(uint piece) {
    uint first = piece * PIECE;
    uint end = first + PIECE;
    if (BOUNDED == 2u) {
        first = 4u * (bounds[piece] / 64u + piece);
        end = first + 4u * ((max(bounds[piece], bounds[piece + 1u]) - bounds[piece] + 63u) / 64u);
    }
    return min(uvec2(first, end), push.units);
}

// Finds the tile with this many tiles above it and beside it in its product; false if it has no rows.
bool locate(uint product, uint down, uint across, uint rows, uint columns) {
    uint m_first = down * rows;
    uint group = product % push.groups;
    tile.a_first = m_first + (BOUNDED == 0u ? product * push.m : 0u);
    tile.a_end = tile.a_first - m_first + push.m;
    tile.first_piece = BOUNDED == 2u ? push.first_group + product : 0u;
    tile.end_piece = BOUNDED == 2u ? tile.first_piece + 1u : pieces();
    if (BOUNDED == 1u) {
        tile.a_end = 0u;
        for (uint g = 0u; g < push.n_groups; ++g) {
            uint first = bounds[push.first_group + g];
            uint end = min(bounds[push.first_group + g + 1u], push.m);
            uint own = first < end ? (end - first + rows - 1u) / rows : 0u;
            if (down < own) {
                m_first = first + down * rows;
                tile.a_first = m_first;
                tile.a_end = end;
                group = g;
                break;
            }
            down -= own;
        }
    }
    tile.b_first = group * push.n + across * columns;
    tile.b_end = (group + 1u) * push.n;
    tile.in_c = push.c_first + (TURNED ? (product * push.n + across * columns) * push.c_row + m_first
                                       : (product * push.m + m_first) * push.c_row + across * columns);
    return tile.a_first < tile.a_end;
}

// The rows of A and of B of row i and column j; those past an edge are the last.
uint row_of_a(uint i) { return min(tile.a_first + i, tile.a_end - 1u); }
uint row_of_b(uint j) { return min(tile.b_first + j, tile.b_end - 1u); }

uint place_in_c(uint i, uint j) { return tile.in_c + (TURNED ? j * push.c_row + i : i * push.c_row + j); }

// Where a unit of a row of a plane of A, and of a row of B, lies.
uint unit_of_a(uint row, uint plane, uint unit) {
    return hlx_unit_at(row, plane, unit, 2u, rows_of_a(), push.units, A_IN_PIECES);
}
#ifndef B_IN_BLOCKS
uint unit_of_b(uint row, uint unit) { return hlx_unit_at(row, 0u, unit, 1u, push.b_rows, push.units, B_IN_PIECES); }
#endif

// Declares how many tiles are beside and below each other in a product, and the workgroup's product, if it has one.
#define DECLARE_PRODUCT(ROWS, COLUMNS) \
    uint across = (push.n + COLUMNS - 1u) / COLUMNS; \
    uint down = tiles_down(ROWS); \
    uint product = hlx_group() / (across * down); \
    if (product >= push.batch) return;
