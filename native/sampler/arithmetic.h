// Weights and their sums, and random numbers. Knows nothing of masks and parameters.
#ifndef LOCALLLM_SAMPLER_ARITHMETIC_H
#define LOCALLLM_SAMPLER_ARITHMETIC_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

// All arithmetic is written so that NumPy can do it in the same order: float32 products and sums one by one (no
// contraction, see CMakeLists.txt), and sums of weights in double over kLanes interleaved lanes, block by block.

#if defined(__GNUC__)
#define LS_INLINE __attribute__((always_inline))
#else
#define LS_INLINE
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define LS_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LS_WIDE
#endif

namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr float kHuge = std::numeric_limits<float>::max();
constexpr int kLanes = 32;
constexpr int kBlock = 1024; // tokens with a sum of their own, so that a draw searches only one block
constexpr int kWide = 64;
constexpr int kBuckets = 512;
constexpr int kWays = 4;                // partial sums per bucket, to avoid dependency chains
constexpr float kBucketsPerNat = 16.0f; // logits more than 32 nats below the best share the last bucket
constexpr int32_t kFew = 64;            // this many are sorted; more are divided again
constexpr float kLog2E = 1.44269504f;     // factor that turns weights into powers of 2
constexpr float kNegligible = 1e-30f;     // a difference of logits this small changes no weight at any temperature
constexpr float kGreedy = 1e-5f;        // lower temperatures count as 0
constexpr int kTries = 4;               // draws tested for membership in a share before the share is computed
constexpr int kPlainTries = 64;         // likewise at temperature 1, where a draw costs next to nothing
constexpr uint64_t kXtc = 1000;         // random stream of XTC
constexpr uint64_t kPlain = 2000;       // random streams of draws at temperature 1
constexpr int kMirostatTokens = 100;
constexpr double kMostMu = 1000;         // 2 to this power is still finite

using Sums = std::vector<double>;

// A difference of logits in steps of `scale`. One too small to change any weight becomes 0: denormal numbers slow products
// down a hundredfold on many CPUs.
LS_INLINE inline float scaled(float difference, float scale) {
    return (std::fabs(difference) < kNegligible ? 0.0f : difference) * scale;
}

// 2^x for x <= 0, within 2 ulp (a polynomial fitted to 2^f - 1 for f in [-0.5, 0.5]); 0 below -126.
LS_INLINE inline float power_of_2(float x) {
    const float clamped = std::max(x, -126.0f);
    const float n = std::nearbyint(clamped);
    const float f = clamped - n;
    float p = 1.3264737612e-3f;
    p = p * f + 9.6715131338e-3f;
    p = p * f + 5.5507337186e-2f;
    p = p * f + 2.4022242077e-1f;
    p = p * f + 6.9314697761e-1f;
    p = p * f + 1.0f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return x < -126.0f ? 0.0f : p * power;
}

// A compiler must not reorder a maximum (NaN, -0), so the lanes are spelled out.
LS_WIDE float largest(const float * numbers, int32_t count) {
    float lanes[kWide];
    std::fill(lanes, lanes + kWide, kForbidden);
    int32_t i = 0;
    for (; i + kWide <= count; i += kWide)
        for (int lane = 0; lane < kWide; lane++) lanes[lane] = numbers[i + lane] > lanes[lane] ? numbers[i + lane] : lanes[lane];
    for (int lane = 0; i < count; i++, lane++) lanes[lane] = numbers[i] > lanes[lane] ? numbers[i] : lanes[lane];
    return *std::max_element(lanes, lanes + kWide);
}

LS_WIDE int32_t first_of(const float * numbers, int32_t count, float value) {
    int32_t i = 0;
    for (; i + kWide <= count; i += kWide) {
        int32_t equal = 0;
        for (int lane = 0; lane < kWide; lane++) equal += numbers[i + lane] == value;
        if (equal > 0) break;
    }
    return static_cast<int32_t>(std::find(numbers + i, numbers + count, value) - numbers);
}

// The sum of number(i) over [begin, end), which is at most one block.
template <typename Number> LS_INLINE inline double sum_of_block(int32_t begin, int32_t end, Number number) {
    double lanes[kLanes] = {};
    int32_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
        decltype(number(i)) numbers[kLanes];
        for (int lane = 0; lane < kLanes; lane++) numbers[lane] = number(i + lane);
        for (int lane = 0; lane < kLanes; lane++) lanes[lane] += numbers[lane];
    }
    for (int lane = 0; i < end; i++, lane++) lanes[lane] += number(i);
    double sum = 0;
    for (double lane : lanes) sum += lane;
    return sum;
}

double total(const Sums & sums) {
    double sum = 0;
    for (double block : sums) sum += block;
    return sum;
}

LS_WIDE void weigh_list(const float * logits, int32_t count, float best, float scale, float * weights, double * sums) {
    for (int32_t begin = 0; begin < count; begin += kBlock)
        *sums++ = sum_of_block(begin, std::min(begin + kBlock, count), [&](int32_t i) LS_INLINE {
            return weights[i] = power_of_2(scaled(logits[i] - best, scale));
        });
}

// The sum of weight times distance below the best, in nats.
LS_WIDE double sum_depths(const float * logits, const float * weights, int32_t count, float best) {
    double sum = 0;
    for (int32_t begin = 0; begin < count; begin += kBlock)
        sum += sum_of_block(begin, std::min(begin + kBlock, count), [&](int32_t i) LS_INLINE {
            const float depth = weights[i] > 0 ? best - logits[i] : 0.0f; // otherwise it could be infinite
            return static_cast<double>(weights[i]) * static_cast<double>(depth);
        });
    return sum;
}

size_t num_blocks(int32_t count) { return static_cast<size_t>((count + kBlock - 1) / kBlock); }

// A number in [0, 1) with 53 bits from seed, draw and stream alone, by SplitMix64 (Steele et al., 2014).
double uniform(uint64_t seed, uint64_t draw, uint64_t stream) {
    auto mix = [](uint64_t z) {
        z += 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    };
    return static_cast<double>(mix(mix(mix(seed) ^ draw) ^ stream) >> 11) * 0x1.0p-53;
}

// The first index at which the cumulative weight exceeds u of the total; never one of weight 0. -1: all are 0, or NaN.
template <typename Weight> int32_t drawn(const Sums & sums, int32_t count, double u, Weight weight) {
    const double wanted = u * total(sums);
    size_t last = sums.size();
    while (last > 0 && sums[last - 1] == 0) last--;
    if (last == 0 || std::isnan(wanted)) return -1;
    double sum = 0;
    size_t block = 0;
    while (block + 1 < last && sum + sums[block] <= wanted) sum += sums[block++];
    int32_t chosen = -1;
    const int32_t begin = static_cast<int32_t>(block) * kBlock;
    for (int32_t i = begin; i < std::min(begin + kBlock, count); i++) {
        const float w = weight(i);
        if (w == 0) continue;
        sum += w;
        chosen = i;
        if (sum > wanted) break;
    }
    return chosen;
}

} // namespace

#endif
