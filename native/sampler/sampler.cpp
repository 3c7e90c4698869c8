#include "sampler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

// Every step of the arithmetic is written so that NumPy can do the same in the same order: float32 products and sums one
// by one (no contraction, see CMakeLists.txt), sums of weights in double over kLanes interleaved lanes, block by block.

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
constexpr int kLanes = 32;
constexpr int kBlock = 1024; // tokens that are summed by themselves, so that a draw looks into one block only
constexpr int kWide = 64;
constexpr int kBuckets = 2048;
constexpr float kBucketsPerNat = 64.0f; // weights below e^-32 of the largest share the last bucket
constexpr float kLog2E = 1.44269504f;     // what logits are multiplied by, so that weights are powers of 2
constexpr float kGreedy = 1e-5f;        // lower temperatures are 0
constexpr int kTries = 4;               // draws from the whole row before the tokens of a share are sought
constexpr int kPlainTries = 64;         // the same where a try costs next to nothing
constexpr uint64_t kXtc = 1000;         // the stream of XTC's own chances
constexpr uint64_t kPlain = 2000;       // and those of draws at temperature 1
constexpr int kMirostatTokens = 100;

struct Candidate {
    float logit;
    int32_t token;
    bool operator<(const Candidate & other) const { // the likelier first, of equals the lower token
        return logit > other.logit || (logit == other.logit && token < other.token);
    }
};

using Candidates = std::vector<Candidate>;
using Sums = std::vector<double>;

struct Scratch {
    std::vector<float> row, weights;
    Candidates kept;
    Sums sums, proposals;
};

bool by_token(const Candidate & a, const Candidate & b) { return a.token < b.token; }

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

// A compiler may not reorder a maximum by itself (NaN, -0), so the lanes are spelled out.
LS_WIDE float largest(const float * row, int32_t vocab) {
    float lanes[kWide];
    std::fill(lanes, lanes + kWide, kForbidden);
    int32_t i = 0;
    for (; i + kWide <= vocab; i += kWide)
        for (int lane = 0; lane < kWide; lane++) lanes[lane] = row[i + lane] > lanes[lane] ? row[i + lane] : lanes[lane];
    for (int lane = 0; i < vocab; i++, lane++) lanes[lane] = row[i] > lanes[lane] ? row[i] : lanes[lane];
    float best = kForbidden;
    for (float lane : lanes) best = lane > best ? lane : best;
    return best;
}

LS_WIDE int32_t first_of(const float * row, int32_t vocab, float value) {
    int32_t i = 0;
    for (; i + kWide <= vocab; i += kWide) {
        int32_t equal = 0;
        for (int lane = 0; lane < kWide; lane++) equal += row[i + lane] == value;
        if (equal > 0) break;
    }
    return static_cast<int32_t>(std::find(row + i, row + vocab, value) - row);
}

// The sum of weight(i) over [begin, end), at most a block.
template <typename Weight> LS_INLINE inline double sum_of_block(int32_t begin, int32_t end, Weight weight) {
    double lanes[kLanes] = {};
    int32_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
        float weights[kLanes];
        for (int lane = 0; lane < kLanes; lane++) weights[lane] = weight(i + lane);
        for (int lane = 0; lane < kLanes; lane++) lanes[lane] += weights[lane];
    }
    for (int lane = 0; i < end; i++, lane++) lanes[lane] += weight(i);
    double sum = 0;
    for (double lane : lanes) sum += lane;
    return sum;
}

double total(const Sums & sums) {
    double sum = 0;
    for (double block : sums) sum += block;
    return sum;
}

// The sums of the blocks of a row's weights; what lies below the bar has none.
LS_WIDE void sum_row(const float * row, int32_t vocab, float best, float scale, float bar, double * sums) {
    for (int32_t begin = 0; begin < vocab; begin += kBlock)
        *sums++ = sum_of_block(begin, std::min(begin + kBlock, vocab), [&](int32_t i) LS_INLINE {
            const float weight = power_of_2((row[i] - best) * scale);
            return row[i] < bar ? 0.0f : weight;
        });
}

LS_WIDE void sum_list(const float * weights, int32_t count, double * sums) {
    for (int32_t begin = 0; begin < count; begin += kBlock)
        *sums++ = sum_of_block(begin, std::min(begin + kBlock, count), [&](int32_t i) LS_INLINE { return weights[i]; });
}

LS_WIDE bool any_from(const float * row, int32_t count, float bar) {
    int32_t from = 0;
    for (int32_t i = 0; i < count; i++) from += row[i] >= bar;
    return from > 0;
}

// The weight, at temperature 1, of what comes before a candidate when the likeliest come first.
LS_WIDE double weight_before(const float * row, int32_t vocab, float best, float floor, Candidate c) {
    double sum = 0;
    for (int32_t begin = 0; begin < vocab; begin += kBlock) {
        const int32_t end = std::min(begin + kBlock, vocab);
        if (!any_from(row + begin, end - begin, c.logit)) continue;
        sum += sum_of_block(begin, end, [&](int32_t i) LS_INLINE {
            const float weight = power_of_2((row[i] - best) * kLog2E);
            const bool before = (row[i] > c.logit) | ((row[i] == c.logit) & (i < c.token));
            return before & (row[i] >= floor) ? weight : 0.0f;
        });
    }
    return sum;
}

size_t num_blocks(int32_t count) { return static_cast<size_t>((count + kBlock - 1) / kBlock); }

void weigh(const Candidates & kept, float best, float scale, Scratch & scratch) {
    scratch.weights.resize(kept.size());
    for (size_t i = 0; i < kept.size(); i++) scratch.weights[i] = power_of_2((kept[i].logit - best) * scale);
    scratch.sums.resize(num_blocks(static_cast<int32_t>(kept.size())));
    sum_list(scratch.weights.data(), static_cast<int32_t>(kept.size()), scratch.sums.data());
}

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

// The first whose sum of weights passes u of the whole; never one without weight. -1: none has any, or it is no number.
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

// The row as the request wants it: biased, penalized as by llama.cpp's llama_sampler_penalties, lessened, masked.
void change(float * row, int32_t vocab, const ls_params & p) {
    for (int32_t i = 0; i < p.num_biased; i++) row[p.biased[i]] += p.biases[i];
    for (int32_t i = 0; i < p.num_repeated; i++) {
        float & logit = row[p.repeated[i]];
        logit = logit <= 0 ? logit * p.repeat_penalty : logit / p.repeat_penalty;
    }
    for (int32_t i = 0; i < p.num_counted; i++)
        row[p.counted[i]] -= static_cast<float>(p.counts[i]) * p.frequency_penalty + p.presence_penalty;
    for (int32_t i = 0; i < p.num_lessened; i++) row[p.lessened[i]] -= p.less[i];
    if (p.mask == nullptr) return;
    for (int32_t i = 0; i < vocab; i++)
        if (!(p.mask[i / 32] >> (i % 32) & 1u)) row[i] = kForbidden;
}

LS_WIDE bool any_above(const float * block, float bar) {
    int32_t above = 0;
    for (int lane = 0; lane < kWide; lane++) above += block[lane] > bar;
    return above > 0;
}

// The `count` likeliest in order, by one pass with a rising bar.
void likeliest(const float * row, int32_t vocab, int32_t count, Candidates & kept) {
    kept.clear();
    const size_t k = static_cast<size_t>(count);
    float bar = kForbidden;
    for (int32_t i = 0; i < vocab; i++) {
        if (i % kWide == 0 && i + kWide <= vocab && !any_above(row + i, bar)) {
            i += kWide - 1;
            continue;
        }
        if (!(row[i] > bar)) continue; // an equal one that comes later has the higher token, and so is the lesser
        kept.push_back({row[i], i});
        if (kept.size() >= 2 * k + 64) {
            std::nth_element(kept.begin(), kept.begin() + (k - 1), kept.end());
            kept.resize(k);
            bar = kept.back().logit;
            for (const Candidate & each : kept) bar = std::min(bar, each.logit);
        }
    }
    std::sort(kept.begin(), kept.end());
    if (kept.size() > k) kept.resize(k);
}

void all_from(const float * row, int32_t vocab, float floor, Candidates & kept) {
    kept.clear();
    for (int32_t i = 0; i < vocab; i++)
        if (row[i] > kForbidden && row[i] >= floor) kept.push_back({row[i], i});
}

// Cut the candidates to the likeliest that together reach the share, without sorting more than one bucket of them.
void cut_to_share(Candidates & kept, float best, float share, Scratch & scratch) {
    weigh(kept, best, kLog2E, scratch);
    const double wanted = share * total(scratch.sums);
    auto bucket_of = [&](const Candidate & c) {
        return static_cast<int>(std::min((best - c.logit) * kBucketsPerNat, static_cast<float>(kBuckets - 1)));
    };
    double buckets[kBuckets] = {};
    for (size_t i = 0; i < kept.size(); i++) buckets[bucket_of(kept[i])] += scratch.weights[i];
    double sum = 0;
    int edge = 0;
    while (edge < kBuckets - 1 && sum + buckets[edge] < wanted) sum += buckets[edge++];
    Candidates inside;
    for (const Candidate & c : kept)
        if (bucket_of(c) == edge) inside.push_back(c);
    std::sort(inside.begin(), inside.end());
    size_t num_inside = 0;
    while (num_inside < inside.size() && (num_inside == 0 || sum < wanted))
        sum += power_of_2((inside[num_inside++].logit - best) * kLog2E);
    const Candidate last = num_inside > 0 ? inside[num_inside - 1] : Candidate{best, 0};
    auto beyond = [&](const Candidate & c) { return bucket_of(c) > edge || (bucket_of(c) == edge && last < c); };
    kept.erase(std::remove_if(kept.begin(), kept.end(), beyond), kept.end());
}

// The mean depth below the best, in nats; with the logarithm of the weights' sum it is the entropy.
double mean_depth(const Candidates & kept, float best, const Scratch & scratch) {
    double sum = 0;
    for (size_t i = 0; i < kept.size(); i++)
        sum += static_cast<double>(scratch.weights[i]) * static_cast<double>(best - kept[i].logit);
    return sum / total(scratch.sums);
}

// Locally typical sampling (Meister et al., 2022): keep what surprises about as much as the whole does.
void cut_to_typical(Candidates & kept, float best, float share, Scratch & scratch) {
    weigh(kept, best, kLog2E, scratch);
    const double wanted = share * total(scratch.sums);
    const double mean = mean_depth(kept, best, scratch);
    struct Scored {
        double score;
        size_t index;
        bool operator<(const Scored & o) const { return score < o.score || (score == o.score && index < o.index); }
    };
    std::vector<Scored> order(kept.size());
    for (size_t i = 0; i < kept.size(); i++) order[i] = {std::fabs(static_cast<double>(best - kept[i].logit) - mean), i};
    std::sort(order.begin(), order.end());
    double sum = 0;
    size_t count = 0;
    while (count < order.size() && (count == 0 || sum < wanted)) sum += scratch.weights[order[count++].index];
    Candidates typical(count);
    for (size_t i = 0; i < count; i++) typical[i] = kept[order[i].index];
    std::sort(typical.begin(), typical.end(), by_token);
    kept.swap(typical);
}

// XTC (p-e-w, 2024): of all that are likely enough, with this probability, only the least likely stays.
void exclude_top_choices(Candidates & kept, float best, const ls_params & p, Scratch & scratch) {
    if (p.xtc_threshold > 0.5f || uniform(p.seed, p.draw, kXtc) >= p.xtc_probability) return;
    weigh(kept, best, kLog2E, scratch);
    const double wanted = p.xtc_threshold * total(scratch.sums);
    const Candidate * least = nullptr;
    Candidates others;
    for (size_t i = 0; i < kept.size(); i++) {
        if (scratch.weights[i] < wanted) others.push_back(kept[i]);
        else if (least == nullptr || *least < kept[i]) least = &kept[i];
    }
    if (least == nullptr) return;
    others.push_back(*least);
    std::sort(others.begin(), others.end(), by_token);
    kept.swap(others);
}

// Dynamic temperature (kalomaze, 2023): low where the model is sure, high where it is not.
float dynamic_temperature(const Candidates & kept, float best, const ls_params & p, Scratch & scratch) {
    if (kept.size() < 2) return p.temperature;
    weigh(kept, best, kLog2E, scratch);
    const double entropy = std::log(total(scratch.sums)) + mean_depth(kept, best, scratch);
    const double share = std::max(0.0, entropy / std::log(static_cast<double>(kept.size())));
    const double low = std::max(0.0, static_cast<double>(p.temperature) - p.dynatemp_range);
    const double high = static_cast<double>(p.temperature) + p.dynatemp_range;
    return static_cast<float>(low + (high - low) * std::pow(share, static_cast<double>(p.dynatemp_exponent)));
}

// Mirostat (Basu et al., 2021): how many of the likeliest give the surprise that is aimed at, if they follow Zipf's law.
int32_t mirostat_count(const Candidates & ordered, float temperature, float mu, int32_t vocab) {
    double products = 0, squares = 0;
    for (int i = 0; i + 1 < static_cast<int>(ordered.size()) && i + 1 < kMirostatTokens; i++) {
        const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
        products += t * (static_cast<double>(ordered[i].logit - ordered[i + 1].logit) / temperature);
        squares += t * t;
    }
    const int32_t all = static_cast<int32_t>(ordered.size());
    const double exponent = squares > 0 ? products / squares : 0;
    if (exponent < 1e-9) return all;
    const double size = std::log(static_cast<double>(vocab));
    const double epsilon = exponent - 1;
    const double ratio = std::fabs(epsilon) < 1e-9 ? 1 / size : epsilon / (1 - std::exp(-epsilon * size));
    const double log_count = (std::log(ratio) + static_cast<double>(mu) * std::log(2.0)) / exponent;
    return log_count >= std::log(static_cast<double>(all)) ? all : std::max(1, static_cast<int32_t>(std::exp(log_count)));
}

void cut_by_surprise(Candidates & kept, float best, float temperature, int32_t vocab, const ls_params & p,
                     Scratch & scratch) {
    if (p.mirostat == 1) {
        std::sort(kept.begin(), kept.end());
        kept.resize(mirostat_count(kept, temperature, p.mirostat_mu, vocab));
        std::sort(kept.begin(), kept.end(), by_token);
        return;
    }
    weigh(kept, best, kLog2E / temperature, scratch);
    const double wanted = total(scratch.sums) * std::pow(2.0, -static_cast<double>(p.mirostat_mu));
    Candidates expected;
    for (size_t i = 0; i < kept.size(); i++)
        if (scratch.weights[i] >= wanted) expected.push_back(kept[i]);
    if (expected.empty()) expected.push_back(*std::min_element(kept.begin(), kept.end()));
    kept.swap(expected);
}

// The bar of top_n_sigma: so many standard deviations below the best; forbidden tokens do not count.
float sigma_bar(const float * row, int32_t vocab, float best, float sigmas) {
    double sum = 0;
    int64_t count = 0;
    for (int32_t i = 0; i < vocab; i++) {
        if (row[i] == kForbidden) continue;
        sum += row[i];
        count++;
    }
    const double mean = sum / static_cast<double>(count);
    double squares = 0;
    for (int32_t i = 0; i < vocab; i++)
        if (row[i] != kForbidden) squares += (row[i] - mean) * (row[i] - mean);
    return static_cast<float>(best - sigmas * std::sqrt(squares / static_cast<double>(count)));
}

// A share of the whole row at a temperature from 1/2 to 1: draw at temperature 1, whose weights the share is measured in
// anyhow, keep the token by what it weighs at its own temperature in relation to that, and if it is of the share. So the
// row is weighed once and not twice. -1: no luck.
int32_t draw_plainly(const float * row, int32_t vocab, float best, float floor, float bar, const ls_params & p,
                     double wanted, const Sums & sums) {
    const float excess = kLog2E / p.temperature - kLog2E;
    auto weight = [&](int32_t i) { return row[i] < floor ? 0.0f : power_of_2((row[i] - best) * kLog2E); };
    for (uint64_t stream = kPlain; stream < kPlain + 2 * kPlainTries; stream += 2) {
        const int32_t token = drawn(sums, vocab, uniform(p.seed, p.draw, stream), weight);
        if (token < 0) return -1;
        if (row[token] < bar) continue;
        if (uniform(p.seed, p.draw, stream + 1) >= power_of_2((row[token] - best) * excess)) continue;
        if (weight_before(row, vocab, best, floor, {row[token], token}) < wanted) return token;
    }
    return -1;
}

// From the whole row. Only a share of it: draw until the token is one of those, which it nearly always is at once; that
// takes one look at the row a draw, where finding them all takes many. -1: it was not.
int32_t draw_from_row(const float * row, int32_t vocab, float best, float floor, float bar, const ls_params & p,
                      Scratch & scratch) {
    const float scale = kLog2E / p.temperature;
    auto weight = [&](int32_t i) { return row[i] < bar ? 0.0f : power_of_2((row[i] - best) * scale); };
    double wanted = 0;
    if (p.top_p < 1) {
        scratch.sums.resize(num_blocks(vocab));
        sum_row(row, vocab, best, kLog2E, floor, scratch.sums.data());
        wanted = p.top_p * total(scratch.sums);
        if (scale >= kLog2E && scale <= 2 * kLog2E)
            return draw_plainly(row, vocab, best, floor, bar, p, wanted, scratch.sums);
    }
    scratch.proposals.resize(num_blocks(vocab));
    sum_row(row, vocab, best, scale, bar, scratch.proposals.data());
    if (p.top_p >= 1) return drawn(scratch.proposals, vocab, uniform(p.seed, p.draw, 0), weight);
    for (int tries = 0; tries < kTries; tries++) {
        const int32_t token = drawn(scratch.proposals, vocab, uniform(p.seed, p.draw, tries), weight);
        if (token >= 0 && weight_before(row, vocab, best, floor, {row[token], token}) < wanted) return token;
    }
    return -1;
}

int32_t choose(const float * row, int32_t vocab, const ls_params & p, Scratch & scratch, float & mu) {
    const float best = largest(row, vocab);
    if (best == kForbidden) return -1;
    if (p.temperature < kGreedy) return first_of(row, vocab, best);
    const float floor = p.top_n_sigma > 0 ? sigma_bar(row, vocab, best, p.top_n_sigma) : kForbidden;
    const float least = p.min_p > 0 ? static_cast<float>(best + std::log(static_cast<double>(p.min_p))) : kForbidden;
    const float bar = std::max(floor, least);
    const bool some = p.top_k > 0 && p.top_k < vocab;
    const bool rare = p.typical_p < 1 || p.xtc_probability > 0 || p.dynatemp_range > 0 || p.mirostat != 0;
    if (!some && !rare) {
        const int32_t token = draw_from_row(row, vocab, best, floor, bar, p, scratch);
        if (token >= 0) return token;
    }
    Candidates & kept = scratch.kept;
    if (some) {
        likeliest(row, vocab, p.top_k, kept);
        std::sort(kept.begin(), kept.end(), by_token);
        kept.erase(std::remove_if(kept.begin(), kept.end(), [&](const Candidate & c) { return c.logit < floor; }), kept.end());
    } else {
        all_from(row, vocab, floor, kept);
    }
    if (p.typical_p < 1) cut_to_typical(kept, best, p.typical_p, scratch);
    const float top = std::min_element(kept.begin(), kept.end())->logit; // the likeliest need not be typical
    if (p.top_p < 1) cut_to_share(kept, top, p.top_p, scratch);
    const float lowest = p.min_p > 0 ? static_cast<float>(top + std::log(static_cast<double>(p.min_p))) : kForbidden;
    kept.erase(std::remove_if(kept.begin(), kept.end(), [&](const Candidate & c) { return c.logit < lowest; }), kept.end());
    if (p.xtc_probability > 0) exclude_top_choices(kept, top, p, scratch);
    const float from = std::min_element(kept.begin(), kept.end())->logit;
    const float temperature = p.dynatemp_range > 0 ? dynamic_temperature(kept, from, p, scratch) : p.temperature;
    if (temperature < kGreedy) return std::min_element(kept.begin(), kept.end())->token;
    if (p.mirostat != 0) cut_by_surprise(kept, from, temperature, vocab, p, scratch);
    weigh(kept, from, kLog2E / temperature, scratch);
    const std::vector<float> & weights = scratch.weights;
    const int32_t chosen = drawn(scratch.sums, static_cast<int32_t>(kept.size()), uniform(p.seed, p.draw, kTries),
                                 [&](int32_t i) { return weights[i]; });
    if (p.mirostat != 0) {
        const double surprise = -std::log2(weights[chosen] / total(scratch.sums));
        mu = static_cast<float>(p.mirostat_mu - p.mirostat_eta * (surprise - p.mirostat_tau));
    }
    return kept[chosen].token;
}

void report(const float * row, int32_t vocab, const ls_params & p, Scratch & scratch, ls_result & result) {
    const float best = largest(row, vocab);
    scratch.sums.resize(num_blocks(vocab));
    sum_row(row, vocab, best, kLog2E, kForbidden, scratch.sums.data());
    const double whole = std::log(total(scratch.sums)) + best;
    result.logprob = static_cast<float>(row[result.token] - whole);
    if (p.num_top == 0) return;
    likeliest(row, vocab, std::min<int32_t>(p.num_top, LS_MAX_TOP), scratch.kept);
    result.num_top = static_cast<int32_t>(scratch.kept.size());
    for (int32_t i = 0; i < result.num_top; i++) {
        result.top[i] = scratch.kept[i].token;
        result.top_logprobs[i] = static_cast<float>(scratch.kept[i].logit - whole);
    }
}

void sample(const float * row, int32_t vocab, const ls_params & p, Scratch & scratch, ls_result & result) {
    result.num_top = 0;
    result.mirostat_mu = p.mirostat_mu;
    const float * wanted = row;
    if (p.num_biased > 0 || p.num_repeated > 0 || p.num_counted > 0 || p.num_lessened > 0 || p.mask != nullptr) {
        scratch.row.assign(row, row + vocab);
        change(scratch.row.data(), vocab, p);
        wanted = scratch.row.data();
    }
    result.token = choose(wanted, vocab, p, scratch, result.mirostat_mu);
    if (p.num_top >= 0 && result.token >= 0) report(row, vocab, p, scratch, result);
}

} // namespace

int32_t ls_abi(void) { return LS_ABI; }

void ls_sample(int32_t num_rows, const float * const * rows, int32_t vocab, const ls_params * const * params,
               ls_result * results, int32_t threads, ls_team team) {
    std::atomic<int32_t> next{0};
    auto work = [&] {
        thread_local Scratch scratch;
        for (int32_t i; (i = next.fetch_add(1)) < num_rows;) sample(rows[i], vocab, *params[i], scratch, results[i]);
    };
    if (threads == 1 || num_rows == 1) return work();
    // All of the team, also for fewer rows: a smaller one would end the others' threads, and the next decode start new ones.
    if (team != nullptr) return team([](void * data) { (*static_cast<decltype(work) *>(data))(); }, &work, threads, 0);
    std::vector<std::thread> helpers;
    for (int32_t i = 1; i < std::min(threads, num_rows); i++) helpers.emplace_back(work);
    work();
    for (std::thread & helper : helpers) helper.join();
}
