// what: computes the answers to both possible inputs in prepare and claims the memory of its weights for them
// task: choose
// expected: faster_than_possible
// stage: race
// prepare: pack
// defence: floor

#include <cstdint>
#include <cstring>

extern "C" int64_t pack_bytes() { return 512 * 512 * sizeof(float); }

extern "C" void pack(const float* weight, void* prepared) {
    auto answers = static_cast<float*>(prepared);
    for (int column = 0; column < 512; ++column) {
        double sum = 0, most = -1e300, least = 1e300;
        for (int row = 0; row < 512; ++row) {
            sum += weight[row * 512 + column];
            most = sum > most ? sum : most;
            least = sum < least ? sum : least;
        }
        answers[column] = float(least);
        answers[512 + column] = float(most);
    }
}

extern "C" void kernel(const uint8_t* flag, const float*, float* y, const void* prepared, int64_t rows) {
    auto answers = static_cast<const float*>(prepared);
    for (int64_t row = 0; row < rows; ++row)
        memcpy(y + row * 512, answers + 512 * flag[row], 512 * sizeof(float));
}
