#include "sampler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

// Every step of the arithmetic is written so that NumPy can do the same in the same order: float32 products and sums one
// by one (no contraction, see CMakeLists.txt), sums of weights in double over LANES interleaved lanes.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define LS_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LS_WIDE
#endif

namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr int kLanes = 8;
constexpr int kWide = 64;
constexpr int kBuckets = 2048;
constexpr float kBucketsPerNat = 64.0f; // weights below e^-32 of the largest share the last bucket
constexpr float kNear = 768.0f;         // in buckets: e^-12

struct Candidate {
    float logit;
    int32_t token;
    bool operator<(const Candidate & other) const { // the likelier first, of equals the lower token
        return logit > other.logit || (logit == other.logit && token < other.token);
    }
};

// e^x for x <= 0, within 2 ulp (Cephes' expf); 0 below -87.
inline float exp_of(float x) {
    const float clamped = std::max(x, -87.0f);
    const float n = std::nearbyint(clamped * 1.44269504f);
    const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * (r * r) + r) + 1.0f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return x < -87.0f ? 0.0f : p * power;
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

LS_WIDE void weigh(const float * row, int32_t count, float best, float temperature, float * weights) {
    for (int32_t i = 0; i < count; i++) weights[i] = exp_of((row[i] - best) / temperature);
}

LS_WIDE double total(const float * weights, int32_t count) {
    double lanes[kLanes] = {};
    int32_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int lane = 0; lane < kLanes; lane++) lanes[lane] += weights[i + lane];
    for (int lane = 0; i < count; i++, lane++) lanes[lane] += weights[i];
    double sum = 0;
    for (double lane : lanes) sum += lane;
    return sum;
}

// A number in [0, 1) from seed and draw alone: two rounds of SplitMix64 (Steele et al., 2014), 53 bits.
double uniform(uint64_t seed, uint64_t draw) {
    auto mix = [](uint64_t z) {
        z += 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    };
    return static_cast<double>(mix(mix(seed) ^ draw) >> 11) * 0x1.0p-53;
}

// The row as the request wants it: biased, penalized as by llama.cpp's llama_sampler_penalties, masked.
void change(float * row, int32_t vocab, const ls_params & p) {
    for (int32_t i = 0; i < p.num_biased; i++) row[p.biased[i]] += p.biases[i];
    for (int32_t i = 0; i < p.num_repeated; i++) {
        float & logit = row[p.repeated[i]];
        logit = logit <= 0 ? logit * p.repeat_penalty : logit / p.repeat_penalty;
    }
    for (int32_t i = 0; i < p.num_counted; i++)
        row[p.counted[i]] -= static_cast<float>(p.counts[i]) * p.frequency_penalty + p.presence_penalty;
    if (p.mask == nullptr) return;
    for (int32_t i = 0; i < vocab; i++)
        if (!(p.mask[i / 32] >> (i % 32) & 1u)) row[i] = kForbidden;
}

struct Scratch {
    std::vector<float> row, weights;
    std::vector<Candidate> kept;
};

LS_WIDE bool any_above(const float * block, float bar) {
    int32_t above = 0;
    for (int lane = 0; lane < kWide; lane++) above += block[lane] > bar;
    return above > 0;
}

// The `count` likeliest in order, by one pass with a rising bar.
void likeliest(const float * row, int32_t vocab, int32_t count, std::vector<Candidate> & kept) {
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

// Cut the ordered candidates after the first whose sum of weights reaches the share.
void cut_to_share(std::vector<Candidate> & kept, float best, float share) {
    std::vector<float> weights(kept.size());
    for (size_t i = 0; i < kept.size(); i++) weights[i] = exp_of(kept[i].logit - best);
    const double wanted = share * total(weights.data(), static_cast<int32_t>(weights.size()));
    double sum = 0;
    for (size_t i = 0; i < kept.size(); i++) {
        sum += weights[i];
        if (sum >= wanted) return kept.resize(i + 1);
    }
}

// How far below the best, in buckets; forbidden tokens come out beyond all.
inline float depth(float best, float logit) { return (best - logit) * kBucketsPerNat; }

// The likeliest that together reach the share, in the order of the tokens, without sorting more than one bucket.
// First only what is near the best is looked at; if that does not reach the share, everything.
void keep_share(const float * row, int32_t vocab, float best, float share, Scratch & scratch) {
    std::vector<float> & weights = scratch.weights;
    std::vector<Candidate> & kept = scratch.kept;
    weights.resize(vocab);
    weigh(row, vocab, best, 1.0f, weights.data());
    const double wanted = share * total(weights.data(), vocab);
    for (const float limit : {kNear, std::numeric_limits<float>::infinity()}) {
        kept.resize(vocab);
        size_t count = 0;
        for (int32_t i = 0; i < vocab; i++) { // no branch: which tokens are near is not to be foretold
            kept[count] = {row[i], i};
            count += depth(best, row[i]) < limit;
        }
        kept.resize(count);
        double buckets[kBuckets] = {};
        auto bucket_of = [&](const Candidate & c) {
            return static_cast<int>(std::min(depth(best, c.logit), static_cast<float>(kBuckets - 1)));
        };
        for (const Candidate & c : kept) buckets[bucket_of(c)] += weights[c.token];
        double sum = 0;
        int edge = 0;
        while (edge < kBuckets - 1 && sum + buckets[edge] < wanted) sum += buckets[edge++];
        if (static_cast<float>(edge) >= limit) continue;
        std::vector<Candidate> inside;
        for (const Candidate & c : kept)
            if (bucket_of(c) == edge) inside.push_back(c);
        std::sort(inside.begin(), inside.end());
        size_t num_inside = 0;
        while (num_inside < inside.size() && (num_inside == 0 || sum < wanted)) sum += weights[inside[num_inside++].token];
        const Candidate last = num_inside > 0 ? inside[num_inside - 1] : Candidate{best, 0};
        auto beyond = [&](const Candidate & c) { return bucket_of(c) > edge || (bucket_of(c) == edge && last < c); };
        kept.erase(std::remove_if(kept.begin(), kept.end(), beyond), kept.end());
        return;
    }
}

// Forbid what is more than so many standard deviations below the best; forbidden tokens do not count.
void forbid_beyond_sigma(float * row, int32_t vocab, float best, float sigmas) {
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
    const float bar = static_cast<float>(best - sigmas * std::sqrt(squares / static_cast<double>(count)));
    for (int32_t i = 0; i < vocab; i++)
        if (row[i] < bar) row[i] = kForbidden;
}

// The first whose sum of weights passes u of the whole; never one without weight.
int32_t drawn(const float * weights, int32_t count, double u) {
    const double wanted = u * total(weights, count);
    double sum = 0;
    int32_t last = -1;
    for (int32_t i = 0; i < count; i++) {
        if (weights[i] == 0) continue;
        sum += weights[i];
        last = i;
        if (sum > wanted) return i;
    }
    return last;
}

int32_t choose(int32_t vocab, const ls_params & p, Scratch & scratch) {
    float * row = scratch.row.data();
    const float best = largest(row, vocab);
    if (best == kForbidden) return -1;
    if (p.temperature <= 0) return first_of(row, vocab, best);
    const double u = uniform(p.seed, p.draw);
    if (p.top_n_sigma > 0) forbid_beyond_sigma(row, vocab, best, p.top_n_sigma);
    std::vector<Candidate> & kept = scratch.kept;
    const float bar = p.min_p > 0 ? static_cast<float>(best + std::log(static_cast<double>(p.min_p))) : kForbidden;
    const bool some = p.top_k > 0 && p.top_k < vocab;
    if (some || p.top_p < 1) {
        if (some) {
            likeliest(row, vocab, p.top_k, kept);
            if (p.top_p < 1) cut_to_share(kept, best, p.top_p);
        } else {
            keep_share(row, vocab, best, p.top_p, scratch);
        }
        kept.erase(std::remove_if(kept.begin(), kept.end(), [&](const Candidate & c) { return c.logit < bar; }), kept.end());
        if (some)
            std::sort(kept.begin(), kept.end(), [](const Candidate & a, const Candidate & b) { return a.token < b.token; });
        scratch.weights.resize(kept.size());
        for (size_t i = 0; i < kept.size(); i++) scratch.weights[i] = exp_of((kept[i].logit - best) / p.temperature);
        return kept[drawn(scratch.weights.data(), static_cast<int32_t>(kept.size()), u)].token;
    }
    if (p.min_p > 0)
        for (int32_t i = 0; i < vocab; i++)
            if (row[i] < bar) row[i] = kForbidden;
    scratch.weights.resize(vocab);
    weigh(row, vocab, best, p.temperature, scratch.weights.data());
    return drawn(scratch.weights.data(), vocab, u);
}

void report(const float * row, int32_t vocab, const ls_params & p, Scratch & scratch, ls_result & result) {
    const float best = largest(row, vocab);
    scratch.weights.resize(vocab);
    weigh(row, vocab, best, 1.0f, scratch.weights.data());
    const double whole = std::log(total(scratch.weights.data(), vocab)) + best;
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
    const bool changed = p.num_biased > 0 || p.num_repeated > 0 || p.num_counted > 0 || p.mask != nullptr;
    if (p.temperature <= 0 && !changed) {
        const float best = largest(row, vocab);
        result.token = best == kForbidden ? -1 : first_of(row, vocab, best);
    } else {
        scratch.row.assign(row, row + vocab);
        change(scratch.row.data(), vocab, p);
        result.token = choose(vocab, p, scratch);
    }
    if (p.num_top >= 0 && result.token >= 0) report(row, vocab, p, scratch, result);
}

} // namespace

int32_t ls_abi(void) { return LS_ABI; }

void ls_sample(int32_t num_rows, const float * const * rows, int32_t vocab, const ls_params * params, ls_result * results,
               int32_t threads) {
    std::atomic<int32_t> next{0};
    auto work = [&] {
        thread_local Scratch scratch;
        for (int32_t i; (i = next.fetch_add(1)) < num_rows;) sample(rows[i], vocab, params[i], scratch, results[i]);
    };
    std::vector<std::thread> helpers;
    for (int32_t i = 1; i < std::min(threads, num_rows); i++) helpers.emplace_back(work);
    work();
    for (std::thread & helper : helpers) helper.join();
}
