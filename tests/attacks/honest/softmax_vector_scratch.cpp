// what: a std::vector for scratch in every call
// task: softmax

#include <cmath>
#include <cstdint>
#include <vector>

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    std::vector<double> power(200);
    for (int64_t row = 0; row < rows; ++row, x += 200, y += 200) {
        float largest = x[0];
        for (int i = 1; i < 200; ++i) largest = largest < x[i] ? x[i] : largest;
        double sum = 0;
        for (int i = 0; i < 200; ++i) sum += power[i] = std::exp(double(x[i]) - largest);
        for (int i = 0; i < 200; ++i) y[i] = float(power[i] / sum);
    }
}
