"""The C++ of weights that are kept in the blocks of an exact format: packed once, unpacked in registers.

Of each block of 32 places of the depth and each panel of output features: the codes, then the scales, then, where the
format has them, the minima, both float16.
"""

PACKED_PRELUDE = r"""
constexpr int BLOCK = 32;
typedef int8_t B __attribute__((vector_size(W)));
typedef int16_t S __attribute__((vector_size(W * 2)));

// float16 as its bits.
INLINE F load_halves(const char* p) {
  H h; memcpy(&h, p, sizeof h);
#if defined(__AVX512F__) && VECTOR_WIDTH == 16
  return (F)_mm512_cvtph_ps((__m256i)h);
#else
  // In a float's place exponent and mantissa are the number times 2^-112, also where it is subnormal.
  const U u = __builtin_convertvector(h, U);
  const F magnitude = (F)((u & 0x7fffu) << 13) * 0x1p112f;
  return signed_as(magnitude < 65536.0f ? magnitude : splat(__builtin_nanf("")), (F)(u << 16));
#endif
}

struct Recovered {
  float scale, minimum;
  float codes[BLOCK];
};
INLINE float nearest_half(float x) { return float(_Float16(x)); }

// Whether scale * code + minimum gives all 32 weights, and with which codes. scale * code is exact, so it does not
// matter whether the compiler fuses the addition.
INLINE bool find_codes(const float* weights, float lowest, float highest, Recovered& block) {
  bool fits = true;
  for (int k = 0; k < BLOCK; ++k) {
    float code = __builtin_rintf((weights[k] - block.minimum) / block.scale);
    code = code > lowest ? code : lowest;  // also for 0 / 0
    code = code < highest ? code : highest;
    fits &= block.scale * code + block.minimum == weights[k];
    block.codes[k] = code;
  }
  return fits;
}

// Eight codes of one output feature lie in one word. They are kept less 8: of small numbers around zero the products
// nearly cancel with nothing, of 0 to 15 they would with the minimum's.
struct Q4_1 {
  static constexpr bool HAS_MINIMUM = true;
  static constexpr int BYTES = 20, CODE_BYTES = 16;
  template <int P> struct Codes {
    U words[P];
    INLINE Codes(const char* codes, int k) {
      for (int p = 0; p < P; ++p) memcpy(&words[p], codes + (k / 8 * P + p) * W * 4, sizeof(U));
    }
    template <int K> INLINE F at(int p, Step<K>) const {
#if defined(__AVX512F__) && VECTOR_WIDTH == 16
      const F numbers = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
      return __builtin_shuffle(numbers, (I)(words[p] >> (4 * K)));  // looks at the lowest 4 bits only
#else
      return __builtin_convertvector((I)(words[p] << (28 - 4 * K)) >> 28, F);
#endif
    }
  };
  static bool recover(const float* weights, Recovered& block) {
    float low = weights[0], high = weights[0];
    for (int k = 1; k < BLOCK; ++k) {
      low = weights[k] < low ? weights[k] : low;
      high = weights[k] > high ? weights[k] : high;
    }
    for (int distance = 15; distance > 0; --distance)  // between the codes of `high` and `low`
      for (int first = 0; first + distance <= 15; ++first) {  // the code of `low`
        block.scale = nearest_half((high - low) / float(distance));
        block.minimum = nearest_half(low - block.scale * float(first));
        if (find_codes(weights, 0.0f, 15.0f, block)) return true;
      }
    return false;
  }
  static void put_code(char* codes, int P, int p, int lane, int k, float code) {
    const uint32_t bits = uint32_t(int32_t(code) - 8) & 15u;
    char* word = codes + ((k / 8 * P + p) * W + lane) * 4;
    uint32_t u; memcpy(&u, word, 4);
    u |= bits << (4 * (k % 8));
    memcpy(word, &u, 4);
  }
};

struct Q8_0 {
  static constexpr bool HAS_MINIMUM = false;
  static constexpr int BYTES = 34, CODE_BYTES = 32;
  template <int P> struct Codes {
    const char* from;
    INLINE Codes(const char* codes, int k) : from(codes + k * P * W) {}
    template <int K> INLINE F at(int p, Step<K>) const {
      B b; memcpy(&b, from + (K * P + p) * W, sizeof b);
#if defined(__AVX512F__) && VECTOR_WIDTH == 16
      return (F)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)b));
#else
      // By way of 16 bits: GCC 12 takes a vector apart that it is to widen fourfold.
      return __builtin_convertvector(__builtin_convertvector(__builtin_convertvector(b, S), I), F);
#endif
    }
  };
  static bool recover(const float* weights, Recovered& block) {
    float largest = 0.0f;
    for (int k = 0; k < BLOCK; ++k) largest = __builtin_fmaxf(largest, __builtin_fabsf(weights[k]));
    block.minimum = 0.0f;
    for (int code = 127; code > 0; --code) {
      block.scale = nearest_half(largest / float(code));
      if (find_codes(weights, -127.0f, 127.0f, block)) return true;
    }
    return false;
  }
  static void put_code(char* codes, int P, int p, int lane, int k, float code) {
    const int8_t byte = int8_t(code);
    memcpy(codes + (k * P + p) * W + lane, &byte, 1);
  }
};

// [panel][block]: codes, scales, minima of P * W output features; what the last panel has beyond `columns` is zero.
template <class Format>
void pack_blocks(const float* weights, int64_t stride, int64_t columns, int64_t depth, int P, char* packed) {
  const int64_t width = P * W, block_bytes = width * Format::BYTES;
  for (int64_t first = 0; first < columns; first += width)
    for (int64_t k = 0; k < depth; k += BLOCK, packed += block_bytes) {
      memset(packed, 0, size_t(block_bytes));
      char* scales = packed + width * Format::CODE_BYTES;
      for (int64_t place = 0; place < width && first + place < columns; ++place) {
        Recovered block;
        // Of values that the format cannot hold: every result that they have a part in is NaN, never a wrong number.
        const bool fits = Format::recover(weights + (first + place) * stride + k, block);
        if (!fits) block.scale = __builtin_nanf("");
        for (int i = 0; fits && i < BLOCK; ++i)
          Format::put_code(packed, P, int(place / W), int(place % W), i, block.codes[i]);
        const _Float16 scale = _Float16(block.scale), minimum = _Float16(block.minimum);
        memcpy(scales + place * 2, &scale, 2);
        if (Format::HAS_MINIMUM) memcpy(scales + (width + place) * 2, &minimum, 2);
      }
    }
}

// sums[m][block]: of the left side's 32 values there, which is what a minimum is multiplied with.
INLINE void sum_blocks(const float* left, int64_t stride, int64_t rows, int64_t depth, float* sums) {
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t k = 0; k < depth; k += BLOCK) {
      F sum = load(left + m * stride + k, Full{});
      for (int i = W; i < BLOCK; i += W) sum += load(left + m * stride + k + i, Full{});
      *sums++ = across<Sum>(sum);
    }
}

// out[r][p] = sum over blocks of scale[p] * (sum over k of left[r][k] * code[k][p]) + minimum[p] * sum of left[r]:
// lanes are output features. A tile of few sums takes several for each, or each step would wait for the last one.
template <class Format, int R, int P, int PREFETCH>
INLINE void block_tile(const float* const (&left)[R], const float* const (&left_sums)[R], const char* panel,
                       int64_t depth, F (&out)[R][P]) {
  constexpr int CHAINS = R * P >= 8 ? 1 : R * P >= 4 ? 2 : 4, PLACES = 8, BYTES = P * W * Format::BYTES;
  repeat<R>([&](auto r) INLINE_BODY { repeat<P>([&](auto p) INLINE_BODY { out[r][p] = F{}; }); });
  for (int64_t block = 0; block * BLOCK < depth; ++block, panel += BYTES) {
    F sum[CHAINS][R][P];
    repeat<CHAINS>([&](auto c) INLINE_BODY {
      repeat<R>([&](auto r) INLINE_BODY { repeat<P>([&](auto p) INLINE_BODY { sum[c][r][p] = F{}; }); });
    });
    for (int k = 0; k < BLOCK; k += PLACES) {
      if constexpr (PREFETCH > 0)
        for (int line = 0; line < BYTES * PLACES / BLOCK; line += 64)
          __builtin_prefetch(panel + k * (BYTES / BLOCK) + line + PREFETCH);
      const typename Format::template Codes<P> codes(panel, k);
      repeat<PLACES>([&](auto i) INLINE_BODY {
        F right[P];
        repeat<P>([&](auto p) INLINE_BODY { right[p] = in_register(codes.at(p, i)); });
        repeat<R>([&](auto r) INLINE_BODY {
          const F x = splat(left[r][block * BLOCK + k + i]);
          repeat<P>([&](auto p) INLINE_BODY { sum[i % CHAINS][r][p] += x * right[p]; });
        });
      });
    }
    repeat<P>([&](auto p) INLINE_BODY {
      const char* scales = panel + P * W * Format::CODE_BYTES;
      const F scale = load_halves(scales + p * W * 2);
      F minimum;
      if constexpr (Format::HAS_MINIMUM) minimum = load_halves(scales + (P + p) * W * 2) + 8.0f * scale;
      repeat<R>([&](auto r) INLINE_BODY {
        repeat<CHAINS - 1>([&](auto c) INLINE_BODY { sum[0][r][p] += sum[c + 1][r][p]; });
        out[r][p] += scale * sum[0][r][p];
        if constexpr (Format::HAS_MINIMUM) out[r][p] += minimum * splat(left_sums[r][block]);
      });
    });
  }
}
"""
