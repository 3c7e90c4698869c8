// Selects the tokens that may still be drawn, by various orders, without sorting them all.
#ifndef LOCALLLM_SAMPLER_SELECTION_H
#define LOCALLLM_SAMPLER_SELECTION_H

#include "row.h"

namespace {

constexpr int32_t kGroup = 16; // spans

struct Candidate {
    float logit;
    int32_t token;
    bool operator<(const Candidate & other) const { // likelier first; among equals, the lower token
        return logit > other.logit || (logit == other.logit && token < other.token);
    }
};

using Candidates = std::vector<Candidate>;

// A buffer that only grows, so that nothing is cleared.
template <typename Number> Number * room(std::vector<Number> & buffer, int32_t count) {
    if (buffer.size() < static_cast<size_t>(count)) buffer.resize(static_cast<size_t>(count));
    return buffer.data();
}

// The tokens that may still be drawn, in order of token.
struct Kept {
    std::vector<float> logits;
    std::vector<int32_t> tokens;
    int32_t size = 0;
};

// The last one to keep: smaller keys come first; among equals, the lower index.
struct Bound {
    uint32_t key;
    int32_t index;
    bool keeps(uint32_t other, int32_t at) const { return (other < key) | ((other == key) & (at <= index)); }
};

struct Scratch {
    std::vector<float> row, weights, maxima, scores;
    std::vector<uint32_t> keys;
    std::vector<int32_t> buckets, inside;
    Candidates likeliest;
    const float * likeliest_of = nullptr; // the row without a mask whose likeliest these are, until the next draw
    int32_t num_wanted = 0;               // how many of them were wanted; there may be fewer
    Kept kept;
    Sums sums, proposals;
};

bool by_token(const Candidate & a, const Candidate & b) { return a.token < b.token; }

float largest_of(const Kept & kept) { return largest(kept.logits.data(), kept.size); }

void weigh(const Kept & kept, float best, float scale, Scratch & scratch) {
    scratch.sums.resize(num_blocks(kept.size));
    weigh_list(kept.logits.data(), kept.size, best, scale, room(scratch.weights, kept.size), scratch.sums.data());
}

// The `count`-th best of the maxima of spans, of which there are at least that many. `order` is scratch of their length. If
// there are enough groups of spans, these come first: nothing below the `count`-th best group maximum can be the result.
float bar_of(const float * maxima, int32_t num_spans, int32_t count, float * order) {
    const auto greater = [](float a, float b) { return a > b; };
    const int32_t num_groups = num_spans / kGroup;
    int32_t size = num_spans;
    if (num_groups >= count) {
        for (int32_t group = 0; group < num_groups; group++)
            order[group] = *std::max_element(maxima + group * kGroup, maxima + (group + 1) * kGroup);
        std::nth_element(order, order + (count - 1), order + num_groups, greater);
        const float least = order[count - 1];
        size = 0;
        for (int32_t span = 0; span < num_spans; span++) {
            order[size] = maxima[span];
            size += maxima[span] >= least;
        }
    } else {
        std::copy(maxima, maxima + num_spans, order);
    }
    std::nth_element(order, order + (count - 1), order + size, greater);
    return order[count - 1];
}

// The `count` likeliest in order, without forbidden ones; those found before, if the draw looked for as many. At most
// `count` spans hold candidates: those whose maxima are above the bar, and of those that equal it, the first ones suffice.
const Candidates & likeliest(const Row & row, int32_t count, Scratch & scratch) {
    Candidates & found = scratch.likeliest;
    if (row.mask == nullptr && scratch.likeliest_of == row.logits && scratch.num_wanted >= count) {
        std::sort(found.begin(), found.end());
        if (found.size() > static_cast<size_t>(count)) found.resize(static_cast<size_t>(count));
        scratch.num_wanted = count;
        return found;
    }
    scratch.likeliest_of = row.mask == nullptr ? row.logits : nullptr;
    scratch.num_wanted = count;
    found.clear();
    const size_t k = static_cast<size_t>(count);
    const int32_t num_spans = row.vocab / kWide;
    float * maxima = room(scratch.maxima, 2 * num_spans + 1);
    span_maxima(row.logits, row.mask, num_spans, maxima);
    const float bar = num_spans >= count ? bar_of(maxima, num_spans, count, maxima + num_spans) : kForbidden;
    size_t num_equal = 0;
    auto look_at = [&](int32_t begin, int32_t end) {
        for (int32_t i = begin; i < end; i++) {
            const float logit = row[i];
            if (!(logit >= bar) || logit == kForbidden) continue;
            if (logit == bar && num_equal++ >= k) continue;
            found.push_back({logit, i});
        }
    };
    for (int32_t span = 0; span < num_spans; span++) {
        const float best = maxima[span];
        if (best > bar || (best == bar && num_equal < k)) look_at(span * kWide, (span + 1) * kWide);
    }
    look_at(num_spans * kWide, row.vocab);
    if (found.size() > k) {
        std::nth_element(found.begin(), found.begin() + (k - 1), found.end());
        found.resize(k);
    }
    std::sort(found.begin(), found.end());
    return found;
}

void keep_likeliest(const Row & row, int32_t count, Scratch & scratch) {
    likeliest(row, count, scratch);
    Candidates & found = scratch.likeliest;
    std::sort(found.begin(), found.end(), by_token);
    Kept & kept = scratch.kept;
    kept.size = static_cast<int32_t>(found.size());
    room(kept.logits, kept.size);
    room(kept.tokens, kept.size);
    for (size_t i = 0; i < found.size(); i++) {
        kept.logits[i] = found[i].logit;
        kept.tokens[i] = found[i].token;
    }
}

LS_WIDE int32_t num_from(const float * row, int32_t count, float floor) {
    int32_t from = 0;
    for (int32_t i = 0; i < count; i++) from += (row[i] > kForbidden) & (row[i] >= floor);
    return from;
}

void keep_all(const Row & row, Kept & kept) {
    float * logits = room(kept.logits, row.vocab);
    kept.size = gather(row, logits, room(kept.tokens, row.vocab));
}

template <typename Stays> void keep_if(Kept & kept, Stays stays) {
    float * logits = kept.logits.data();
    int32_t * tokens = kept.tokens.data();
    const int32_t count = kept.size;
    int32_t at = 0;
    for (int32_t i = 0; i < count; i++) {
        const bool stay = stays(i);
        logits[at] = logits[i];
        tokens[at] = tokens[i];
        at += stay;
    }
    kept.size = at;
}

void keep_from(Kept & kept, float floor) {
    const float * logits = kept.logits.data();
    if (num_from(logits, kept.size, floor) < kept.size) keep_if(kept, [&](int32_t i) { return logits[i] >= floor; });
}

// The first bucket whose weight brings `sum` to the wanted total, else the last; `sum` becomes the total before it. The
// first and the last bucket are not empty.
template <typename Bucket, typename Weight>
int32_t edge_bucket(int32_t count, int32_t last, double wanted, double & sum, Bucket bucket, Weight weight) {
    double ways[kBuckets * kWays] = {};
    for (int32_t i = 0; i < count; i++) ways[bucket(i) * kWays + i % kWays] += weight(i);
    for (int32_t edge = 0;; edge++) {
        const double * each = ways + edge * kWays;
        const double next = sum + (((each[0] + each[1]) + each[2]) + each[3]);
        if (edge == last || !(next < wanted)) return edge;
        sum = next;
    }
}

LS_WIDE int32_t greatest_of(const int32_t * numbers, int32_t count) {
    int32_t greatest = 0;
    for (int32_t i = 0; i < count; i++) greatest = std::max(greatest, numbers[i]);
    return greatest;
}

// Where to cut so that the weights before the cut reach the wanted total, while sorting only a few: candidates are put into
// buckets, and the bucket in which the total is reached is divided further until few are in it or all are equal.
template <typename Weight> Bound bound_of(int32_t count, double wanted, Scratch & scratch, Weight weight) {
    const int32_t * buckets = scratch.buckets.data();
    const uint32_t * keys = scratch.keys.data();
    int32_t * inside = room(scratch.inside, count);
    double sum = 0;
    const int32_t edge = edge_bucket(count, greatest_of(buckets, count), wanted, sum,
                                     [&](int32_t i) { return buckets[i]; }, weight);
    int32_t num_inside = 0;
    for (int32_t i = 0; i < count; i++) {
        inside[num_inside] = i;
        num_inside += buckets[i] == edge;
    }
    for (;;) {
        uint32_t low = keys[inside[0]], high = low;
        for (int32_t i = 0; i < num_inside; i++) {
            const uint32_t key = keys[inside[i]];
            low = std::min(low, key);
            high = std::max(high, key);
        }
        if (low == high) break; // and they are already in order
        if (num_inside <= kFew) {
            std::sort(inside, inside + num_inside, [&](int32_t a, int32_t b) {
                return keys[a] < keys[b] || (keys[a] == keys[b] && a < b);
            });
            break;
        }
        int shift = 0;
        while ((high - low) >> shift >= kBuckets) shift++;
        auto bucket = [&](int32_t i) { return static_cast<int32_t>((keys[inside[i]] - low) >> shift); };
        const int32_t finer = edge_bucket(num_inside, static_cast<int32_t>((high - low) >> shift), wanted, sum, bucket,
                                          [&](int32_t i) { return weight(inside[i]); });
        int32_t num_finer = 0;
        for (int32_t i = 0; i < num_inside; i++) {
            const bool is_finer = bucket(i) == finer;
            inside[num_finer] = inside[i];
            num_finer += is_finer;
        }
        num_inside = num_finer;
    }
    int32_t taken = 0;
    sum += weight(inside[0]);
    while (taken + 1 < num_inside && sum < wanted) sum += weight(inside[++taken]);
    return {keys[inside[taken]], inside[taken]};
}

LS_INLINE inline uint32_t bits_of(float number) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

LS_INLINE inline int32_t bucket_of(float depth) {
    return static_cast<int32_t>(std::min(scaled(depth, kBucketsPerNat), static_cast<float>(kBuckets - 1)));
}

// Keys and buckets of logits, likelier first.
LS_WIDE void order_by_logit(const float * logits, int32_t count, float best, uint32_t * keys, int32_t * buckets) {
    for (int32_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of(logits[i] + 0.0f); // -0 is 0
        keys[i] = bits >> 31 ? bits : ~bits & 0x7FFFFFFFu;
        buckets[i] = bucket_of(best - logits[i]);
    }
}

LS_WIDE float least_of(const float * numbers, int32_t count) {
    float lanes[kWide];
    std::fill(lanes, lanes + kWide, std::numeric_limits<float>::infinity());
    int32_t i = 0;
    for (; i + kWide <= count; i += kWide)
        for (int lane = 0; lane < kWide; lane++) lanes[lane] = numbers[i + lane] < lanes[lane] ? numbers[i + lane] : lanes[lane];
    for (int lane = 0; i < count; i++, lane++) lanes[lane] = numbers[i] < lanes[lane] ? numbers[i] : lanes[lane];
    return *std::min_element(lanes, lanes + kWide);
}

// Keys and buckets of the distance of the surprise from its mean, nearer first. `scores` is scratch.
LS_WIDE void order_by_score(const float * logits, int32_t count, float best, double mean, float * scores, uint32_t * keys,
                            int32_t * buckets) {
    for (int32_t i = 0; i < count; i++) scores[i] = static_cast<float>(std::fabs(static_cast<double>(best - logits[i]) - mean));
    const float least = least_of(scores, count);
    for (int32_t i = 0; i < count; i++) {
        keys[i] = bits_of(scores[i]);
        buckets[i] = bucket_of(scores[i] - least);
    }
}

void keep_within(Kept & kept, Bound bound, const Scratch & scratch) {
    const uint32_t * keys = scratch.keys.data();
    keep_if(kept, [&](int32_t i) { return bound.keeps(keys[i], i); });
}

void order(const Kept & kept, float best, Scratch & scratch) {
    order_by_logit(kept.logits.data(), kept.size, best, room(scratch.keys, kept.size), room(scratch.buckets, kept.size));
}

} // namespace

#endif
