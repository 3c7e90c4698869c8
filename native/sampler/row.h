// A row of logits with a mask of allowed tokens, and functions over the whole row. Masking copies and writes nothing: the
// mask is applied as the logits are read, 32 at a time, and words without an allowed token are skipped.
#ifndef LOCALLLM_SAMPLER_ROW_H
#define LOCALLLM_SAMPLER_ROW_H

#include "arithmetic.h"

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace {

constexpr int kWord = 32; // tokens per mask word, and lanes of a sum, so that an empty word adds nothing
static_assert(kLanes == kWord && kBlock % kWord == 0 && kWide == 2 * kWord, "words of masks line up with lanes");

// Not every CPU has a vector instruction for variable shifts; a table of bits is one constant vector.
constexpr uint32_t kBits[kWord] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
    1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

struct Row {
    const float * logits;
    int32_t vocab;
    const uint32_t * mask; // as in ls_params; forbidden logits may have any value

    float operator[](int32_t i) const {
        return mask == nullptr || (mask[i / kWord] & kBits[i % kWord]) ? logits[i] : kForbidden;
    }
};

LS_INLINE inline float allowed(uint32_t word, int lane, float logit) { return word & kBits[lane] ? logit : kForbidden; }

LS_INLINE inline int lowest_bit(uint32_t word) {
#if defined(_MSC_VER) && !defined(__clang__)
    unsigned long bit;
    _BitScanForward(&bit, word);
    return static_cast<int>(bit);
#else
    return __builtin_ctz(word);
#endif
}

// Whether the mask allows any token in [begin, end); `begin` is a multiple of kWord.
LS_INLINE inline bool any_allowed(const uint32_t * mask, int32_t begin, int32_t end) {
    uint32_t any = 0;
    for (int32_t word = begin / kWord; word < (end + kWord - 1) / kWord; word++) any |= mask[word];
    return any != 0;
}

LS_WIDE int32_t num_allowed(const uint32_t * mask, int32_t vocab) {
    int32_t count = 0;
    for (int32_t word = 0; word < (vocab + kWord - 1) / kWord; word++) {
        uint32_t bits = mask[word];
        bits -= bits >> 1 & 0x55555555u;
        bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
        bits = (bits + (bits >> 4)) & 0x0F0F0F0Fu;
        count += static_cast<int32_t>(bits * 0x01010101u >> 24);
    }
    return count;
}

struct Best {
    float logit;   // -infinity: no allowed token has a finite logit
    int32_t block; // start of the first block that contains it
    bool is_sound; // no NaN and no +infinity in the whole row, including forbidden tokens
};

LS_INLINE inline float greatest_of(float * lanes, int count) {
    for (int half = count / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            lanes[lane] = lanes[lane + half] > lanes[lane] ? lanes[lane + half] : lanes[lane];
    return lanes[0];
}

// A compiler must not reorder a maximum (NaN, -0), so the lanes are spelled out. `word`: the mask's word.
template <typename Word> LS_INLINE inline Best best_in(const Row & row, Word word) {
    const float * logits = row.logits;
    Best best = {kForbidden, 0, true};
    int32_t unsound[kWide] = {};
    for (int32_t begin = 0; begin < row.vocab; begin += kBlock) {
        const int32_t end = std::min(begin + kBlock, row.vocab);
        float lanes[kWide];
        std::fill(lanes, lanes + kWide, kForbidden);
        int32_t i = begin;
        for (; i + kWide <= end; i += kWide) {
            const uint32_t low = word(i), high = word(i + kWord);
            for (int lane = 0; lane < kWord; lane++) {
                const float logit = allowed(low, lane, logits[i + lane]);
                lanes[lane] = logit > lanes[lane] ? logit : lanes[lane];
            }
            for (int lane = 0; lane < kWord; lane++) {
                const float logit = allowed(high, lane, logits[i + kWord + lane]);
                lanes[kWord + lane] = logit > lanes[kWord + lane] ? logit : lanes[kWord + lane];
            }
            for (int lane = 0; lane < kWide; lane++) unsound[lane] |= !(logits[i + lane] <= kHuge);
        }
        for (int lane = 0; i < end; i++, lane++) {
            lanes[lane] = row[i] > lanes[lane] ? row[i] : lanes[lane];
            unsound[lane] |= !(logits[i] <= kHuge);
        }
        const float greatest = greatest_of(lanes, kWide);
        if (greatest > best.logit) {
            best.logit = greatest;
            best.block = begin;
        }
    }
    for (int32_t lane : unsound) best.is_sound &= lane == 0;
    return best;
}

LS_WIDE void find_best(const Row & row, Best & best) {
    const uint32_t * mask = row.mask;
    if (mask == nullptr)
        best = best_in(row, [](int32_t) LS_INLINE { return ~0u; });
    else
        best = best_in(row, [&](int32_t i) LS_INLINE { return mask[i / kWord]; });
}

Best best_of(const Row & row) {
    Best best;
    find_best(row, best);
    return best;
}

// Index of the largest logit; the first among equals.
int32_t place_of(const Row & row, const Best & best) {
    const int32_t end = std::min(best.block + kBlock, row.vocab);
    for (int32_t at = best.block;; at++) {
        at = static_cast<int32_t>(std::find(row.logits + at, row.logits + end, best.logit) - row.logits);
        if (row[at] == best.logit) return at;
    }
}

// The sum of number(logit, i) over at most one block, from its beginning; forbidden tokens have the logit -infinity, for
// which number must return 0.
template <typename Number> LS_INLINE inline double sum_of(const Row & row, int32_t begin, int32_t end, Number number) {
    const float * logits = row.logits;
    if (row.mask == nullptr)
        return sum_of_block(begin, end, [&](int32_t i) LS_INLINE { return number(logits[i], i); });
    if (!any_allowed(row.mask, begin, end)) return 0;
    double lanes[kLanes] = {};
    int32_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
        const uint32_t word = row.mask[i / kWord];
        if (word == 0) continue;
        float some[kLanes];
        for (int lane = 0; lane < kLanes; lane++) some[lane] = allowed(word, lane, logits[i + lane]);
        decltype(number(0.0f, 0)) numbers[kLanes];
        for (int lane = 0; lane < kLanes; lane++) numbers[lane] = number(some[lane], i + lane);
        for (int lane = 0; lane < kLanes; lane++) lanes[lane] += numbers[lane];
    }
    for (int lane = 0; i < end; i++, lane++) lanes[lane] += number(row[i], i);
    double sum = 0;
    for (double lane : lanes) sum += lane;
    return sum;
}

// The sums of a row's weights per block; logits below the bar have weight 0.
LS_WIDE void sum_row(const Row & row, float best, float scale, float bar, double * sums) {
    for (int32_t begin = 0; begin < row.vocab; begin += kBlock)
        *sums++ = sum_of(row, begin, std::min(begin + kBlock, row.vocab), [&](float logit, int32_t) LS_INLINE {
            const float weight = power_of_2(scaled(logit - best, scale));
            return logit < bar ? 0.0f : weight;
        });
}

LS_WIDE double sum_finite(const Row & row) {
    double sum = 0;
    for (int32_t begin = 0; begin < row.vocab; begin += kBlock)
        sum += sum_of(row, begin, std::min(begin + kBlock, row.vocab), [&](float logit, int32_t) LS_INLINE {
            return logit == kForbidden ? 0.0f : logit;
        });
    return sum;
}

LS_WIDE double num_finite(const Row & row) {
    double sum = 0;
    for (int32_t begin = 0; begin < row.vocab; begin += kBlock)
        sum += sum_of(row, begin, std::min(begin + kBlock, row.vocab), [&](float logit, int32_t) LS_INLINE {
            return logit == kForbidden ? 0.0f : 1.0f;
        });
    return sum;
}

LS_WIDE double sum_squares(const Row & row, double mean) {
    double sum = 0;
    for (int32_t begin = 0; begin < row.vocab; begin += kBlock)
        sum += sum_of(row, begin, std::min(begin + kBlock, row.vocab), [&](float logit, int32_t) LS_INLINE {
            const double apart = logit == kForbidden ? 0.0 : static_cast<double>(logit) - mean;
            return apart * apart;
        });
    return sum;
}

LS_WIDE bool any_from(const float * row, int32_t count, float bar) {
    int32_t from = 0;
    for (int32_t i = 0; i < count; i++) from += row[i] >= bar;
    return from > 0;
}

// The weight, at temperature 1, of all tokens before this one when ordered by likelihood.
LS_WIDE double weight_before(const Row & row, float best, float floor, int32_t token) {
    const float bar = row.logits[token];
    double sum = 0;
    for (int32_t begin = 0; begin < row.vocab; begin += kBlock) {
        const int32_t end = std::min(begin + kBlock, row.vocab);
        if (row.mask != nullptr && !any_allowed(row.mask, begin, end)) continue;
        if (!any_from(row.logits + begin, end - begin, bar)) continue;
        sum += sum_of(row, begin, end, [&](float logit, int32_t i) LS_INLINE {
            const float weight = power_of_2(scaled(logit - best, kLog2E));
            const bool before = (logit > bar) | ((logit == bar) & (i < token));
            return before & (logit >= floor) ? weight : 0.0f;
        });
    }
    return sum;
}

// The maximum of every kWide tokens. `mask`: the allowed tokens, or nullptr.
LS_WIDE void span_maxima(const float * logits, const uint32_t * mask, int32_t num_spans, float * maxima) {
    for (int32_t span = 0; span < num_spans; span++, logits += kWide) {
        float lanes[kWord], others[kWord];
        if (mask == nullptr) {
            for (int lane = 0; lane < kWord; lane++) lanes[lane] = logits[lane];
            for (int lane = 0; lane < kWord; lane++) others[lane] = logits[kWord + lane];
        } else {
            const uint32_t low = mask[2 * span], high = mask[2 * span + 1];
            if ((low | high) == 0) {
                maxima[span] = kForbidden;
                continue;
            }
            for (int lane = 0; lane < kWord; lane++) lanes[lane] = allowed(low, lane, logits[lane]);
            for (int lane = 0; lane < kWord; lane++) others[lane] = allowed(high, lane, logits[kWord + lane]);
        }
        for (int lane = 0; lane < kWord; lane++) lanes[lane] = others[lane] > lanes[lane] ? others[lane] : lanes[lane];
        maxima[span] = greatest_of(lanes, kWord);
    }
}

// Copies every word with an allowed token.
void copy_allowed(const Row & row, float * to) {
    const int32_t num_words = (row.vocab + kWord - 1) / kWord;
    for (int32_t first = 0, end; first < num_words; first = end + 1) {
        for (end = first; end < num_words && (row.mask == nullptr || row.mask[end] != 0);) end++;
        std::copy(row.logits + first * kWord, row.logits + std::min(end * kWord, row.vocab), to + first * kWord);
    }
}

// Collects the allowed tokens with finite logits, in order of token, and their logits; returns their number.
LS_WIDE int32_t gather(const Row & row, float * logits, int32_t * tokens) {
    int32_t at = 0, begin = 0;
    for (; begin < row.vocab; begin += kWord) {
        const float * from = row.logits + begin;
        const int32_t left = row.vocab - begin;
        uint32_t word = row.mask == nullptr ? ~0u : row.mask[begin / kWord];
        if (left < kWord) word &= kBits[left] - 1;
        if (word == ~0u) {
            int32_t finite = 0;
            for (int lane = 0; lane < kWord; lane++) finite += from[lane] > kForbidden;
            if (finite == kWord) {
                for (int lane = 0; lane < kWord; lane++) logits[at + lane] = from[lane];
                for (int lane = 0; lane < kWord; lane++) tokens[at + lane] = begin + lane;
                at += kWord;
                continue;
            }
        }
        for (; word != 0; word &= word - 1) {
            const int lane = lowest_bit(word);
            logits[at] = from[lane];
            tokens[at] = begin + lane;
            at += from[lane] > kForbidden;
        }
    }
    return at;
}

} // namespace

#endif
