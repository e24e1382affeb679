// what: an exponential by range reduction and a polynomial of degree seven
// task: softmax

#include <cmath>
#include <cstdint>
#include <cstring>

// For x <= 0. Cody and Waite's reduction, Taylor coefficients on |r| <= ln(2) / 2.
static float exponential(float x) {
    if (x < -87) return 0;
    float n = std::nearbyint(x * 1.44269504f);
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float power = 1 + r * (1 + r * (0.5f + r * (1 / 6.0f + r * (1 / 24.0f + r * (1 / 120.0f + r * (1 / 720.0f))))));
    int32_t bits = (int32_t(n) + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return power * scale;
}

extern "C" void kernel(const float* x, float* y, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row, x += 200, y += 200) {
        float largest = x[0];
        for (int i = 1; i < 200; ++i) largest = largest < x[i] ? x[i] : largest;
        double sum = 0;
        for (int i = 0; i < 200; ++i) sum += y[i] = exponential(x[i] - largest);
        for (int i = 0; i < 200; ++i) y[i] = float(y[i] / sum);
    }
}
