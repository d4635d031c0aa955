// The sum of the products of 16 digits in plain integer arithmetic.
int digit(uint word, uint j) { return bitfieldExtract(int(word), int(8u * j), 8); }

int dot_of(uvec4 x, uvec4 y) {
    int sum = 0;
    for (uint word = 0u; word < 4u; ++word)
        for (uint j = 0u; j < 4u; ++j) sum += digit(x[word], j) * digit(y[word], j);
    return sum;
}
