// A matrix transposed, word by word: y[c, r] = x[r, c]. A workgroup transposes a tile of 32 x 32 in
// shared memory, so that rows are read, and rows are written, by neighbouring threads.

#define TILE 32u
#define ROWS 8u

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint rows, columns;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { uint y[]; };

// A row of padding: the words of a column lie in as many banks.
shared uint tile[TILE][TILE + 1u];

void main() {
    uint inner = gl_LocalInvocationIndex % TILE;
    uint outer = gl_LocalInvocationIndex / TILE;
    uint row = gl_WorkGroupID.y * TILE;
    uint column = gl_WorkGroupID.x * TILE;
    for (uint i = outer; i < TILE; i += ROWS)
        if (row + i < push.rows && column + inner < push.columns)
            tile[i][inner] = x[(row + i) * push.columns + column + inner];
    barrier();
    for (uint i = outer; i < TILE; i += ROWS)
        if (column + i < push.columns && row + inner < push.rows)
            y[(column + i) * push.rows + row + inner] = tile[inner][i];
}
