// A band of matrices [.., rows, columns]: one value where low <= column - row <= high, else another.
// Parameters: rows, columns, low, high, the value within and the value outside.
#include "../include/indices.glsl"

uint value_at(uint index) {
    uint rows = push.parameters[0];
    uint columns = push.parameters[1];
    uint row = index / columns;
    int distance = int(index - row * columns) - int(row % rows);
    bool within = distance >= int(push.parameters[2]) && distance <= int(push.parameters[3]);
    return push.parameters[within ? 4 : 5];
}
