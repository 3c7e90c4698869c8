#include "sampler.h"

#include <atomic>
#include <system_error>
#include <thread>

#include "selection.h"

namespace {

constexpr int32_t kScarce = 32; // allowed tokens are gathered first if they are fewer than 1/32 of the vocabulary

// Adjusted logits stay finite for all parameters: only the model, biases of -infinity and masks can forbid a token.
float bounded(float logit, float changed) {
    return logit == kForbidden ? kForbidden : std::min(std::max(changed, -kHuge), kHuge);
}

// Applies the request's biases, penalties (as llama.cpp's llama_sampler_penalties) and reductions to the row.
void change(float * row, const ls_params & p) {
    for (int32_t i = 0; i < p.num_biased; i++) {
        float & logit = row[p.biased[i]];
        logit = p.biases[i] == kForbidden ? kForbidden : bounded(logit, logit + p.biases[i]);
    }
    for (int32_t i = 0; i < p.num_repeated; i++) {
        float & logit = row[p.repeated[i]];
        logit = bounded(logit, logit <= 0 ? logit * p.repeat_penalty : logit / p.repeat_penalty);
    }
    for (int32_t i = 0; i < p.num_counted; i++) {
        float & logit = row[p.counted[i]];
        logit = bounded(logit, logit - (static_cast<float>(p.counts[i]) * p.frequency_penalty + p.presence_penalty));
    }
    for (int32_t i = 0; i < p.num_lessened; i++) {
        float & logit = row[p.lessened[i]];
        logit = bounded(logit, logit - p.less[i]);
    }
}

// Keeps the likeliest candidates that together reach the share.
void cut_to_share(Kept & kept, float best, float share, Scratch & scratch) {
    weigh(kept, best, kLog2E, scratch);
    order(kept, best, scratch);
    const float * weights = scratch.weights.data();
    const double wanted = share * total(scratch.sums);
    keep_within(kept, bound_of(kept.size, wanted, scratch, [&](int32_t i) { return weights[i]; }), scratch);
}

// Keeps the `count` likeliest candidates.
void cut_to_count(Kept & kept, float best, int32_t count, Scratch & scratch) {
    if (count >= kept.size) return;
    order(kept, best, scratch);
    keep_within(kept, bound_of(kept.size, count, scratch, [](int32_t) { return 1.0f; }), scratch);
}

// The mean distance below the best, in nats; plus the logarithm of the sum of weights it is the entropy.
double mean_depth(const Kept & kept, float best, const Scratch & scratch) {
    return sum_depths(kept.logits.data(), scratch.weights.data(), kept.size, best) / total(scratch.sums);
}

// Locally typical sampling (Meister et al., 2022): keep tokens whose surprise is close to the expected one.
void cut_to_typical(Kept & kept, float best, float share, Scratch & scratch) {
    weigh(kept, best, kLog2E, scratch);
    const double wanted = share * total(scratch.sums);
    const double mean = mean_depth(kept, best, scratch);
    order_by_score(kept.logits.data(), kept.size, best, mean, room(scratch.scores, kept.size),
                   room(scratch.keys, kept.size), room(scratch.buckets, kept.size));
    const float * weights = scratch.weights.data();
    keep_within(kept, bound_of(kept.size, wanted, scratch, [&](int32_t i) { return weights[i]; }), scratch);
}

LS_WIDE float least_likely(const float * logits, const float * weights, int32_t count, double wanted) {
    float lanes[kWide];
    std::fill(lanes, lanes + kWide, std::numeric_limits<float>::infinity());
    int32_t i = 0;
    for (; i + kWide <= count; i += kWide)
        for (int lane = 0; lane < kWide; lane++) {
            const bool lower = (weights[i + lane] >= wanted) & (logits[i + lane] < lanes[lane]);
            lanes[lane] = lower ? logits[i + lane] : lanes[lane];
        }
    for (int lane = 0; i < count; i++, lane++)
        lanes[lane] = (weights[i] >= wanted) & (logits[i] < lanes[lane]) ? logits[i] : lanes[lane];
    return *std::min_element(lanes, lanes + kWide);
}

// XTC (p-e-w, 2024): with this probability, of all tokens above the threshold keep only the least likely.
void exclude_top_choices(Kept & kept, float best, const ls_params & p, Scratch & scratch) {
    if (p.xtc_threshold > 0.5f || uniform(p.seed, p.draw, kXtc) >= p.xtc_probability) return;
    weigh(kept, best, kLog2E, scratch);
    const double wanted = p.xtc_threshold * total(scratch.sums);
    const float * weights = scratch.weights.data();
    const float logit = least_likely(kept.logits.data(), weights, kept.size, wanted);
    int32_t least = kept.size - 1;
    while (least >= 0 && !(weights[least] >= wanted && kept.logits[least] == logit)) least--;
    keep_if(kept, [&](int32_t i) { return (weights[i] < wanted) | (i == least); });
}

// Dynamic temperature (kalomaze, 2023): low where the model is certain, high where it is not.
float dynamic_temperature(const Kept & kept, float best, const ls_params & p, Scratch & scratch) {
    if (kept.size < 2) return p.temperature;
    weigh(kept, best, kLog2E, scratch);
    const double entropy = std::log(total(scratch.sums)) + mean_depth(kept, best, scratch);
    const double share = std::max(0.0, entropy / std::log(static_cast<double>(kept.size)));
    const double low = std::max(0.0, static_cast<double>(p.temperature) - p.dynatemp_range);
    const double high = static_cast<double>(p.temperature) + p.dynatemp_range;
    return static_cast<float>(low + (high - low) * std::pow(share, static_cast<double>(p.dynatemp_exponent)));
}

// Mirostat (Basu et al., 2021): how many of the likeliest tokens yield the target surprise if they follow Zipf's law, whose
// exponent is estimated from the first of them.
int32_t mirostat_count(const Candidates & first, int32_t all, float temperature, float mu, int32_t vocab) {
    double products = 0, squares = 0;
    for (int i = 0; i + 1 < static_cast<int>(first.size()); i++) {
        const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
        products += t * (static_cast<double>(std::min(first[i].logit - first[i + 1].logit, kHuge)) / temperature);
        squares += t * t;
    }
    const double exponent = squares > 0 ? products / squares : 0;
    if (exponent < 1e-9) return all;
    const double size = std::log(static_cast<double>(vocab));
    const double epsilon = exponent - 1;
    const double ratio = std::fabs(epsilon) < 1e-9 ? 1 / size : epsilon / (1 - std::exp(-epsilon * size));
    const double log_count = (std::log(ratio) + static_cast<double>(mu) * std::log(2.0)) / exponent;
    return log_count >= std::log(static_cast<double>(all)) ? all : std::max(1, static_cast<int32_t>(std::exp(log_count)));
}

void cut_by_surprise(Kept & kept, float best, float temperature, int32_t vocab, const ls_params & p, Scratch & scratch) {
    if (p.mirostat == 1) {
        const Candidates & first = likeliest({kept.logits.data(), kept.size, nullptr}, kMirostatTokens, scratch);
        cut_to_count(kept, best, mirostat_count(first, kept.size, temperature, p.mirostat_mu, vocab), scratch);
        return;
    }
    weigh(kept, best, kLog2E / temperature, scratch);
    const double wanted = total(scratch.sums) * std::pow(2.0, std::min(-static_cast<double>(p.mirostat_mu), kMostMu));
    const float * weights = scratch.weights.data();
    const int32_t first = wanted > 1 ? first_of(kept.logits.data(), kept.size, best) : -1; // kept even if all exceed the target surprise
    keep_if(kept, [&](int32_t i) { return (weights[i] >= wanted) | (i == first); });
}

// The bar of top_n_sigma: this many standard deviations below the best; forbidden tokens do not count.
float sigma_bar(const Row & row, float best, float sigmas) {
    const double count = num_finite(row);
    const double mean = sum_finite(row) / count;
    const double bar = best - sigmas * std::sqrt(sum_squares(row, mean) / count);
    return static_cast<float>(std::max(bar, -static_cast<double>(kHuge)));
}

// Draws from a share (top_p) of the whole row at a temperature from 1/2 to 1 by rejection: draws at temperature 1, for which
// the share's weights are computed anyway, and accepts a token by the ratio of its weight at its own temperature, if it is
// in the share. So the row is weighed once instead of twice. -1: no draw was in the share.
int32_t draw_plainly(const Row & row, float best, float floor, float bar, const ls_params & p,
                     double wanted, const Sums & sums) {
    const float excess = kLog2E / p.temperature - kLog2E;
    auto weight = [&](int32_t i) { return row[i] < floor ? 0.0f : power_of_2(scaled(row[i] - best, kLog2E)); };
    int tries = 0;
    for (uint64_t stream = kPlain; stream < kPlain + 2 * kPlainTries; stream += 2) {
        const int32_t token = drawn(sums, row.vocab, uniform(p.seed, p.draw, stream), weight);
        if (token < 0) return -1;
        if (row[token] < bar) continue;
        if (uniform(p.seed, p.draw, stream + 1) >= power_of_2((row[token] - best) * excess)) continue;
        if (weight_before(row, best, floor, token) < wanted) return token;
        if (++tries == kTries) break;
    }
    return -1;
}

// Draws from the whole row. If only a share of it counts, draws until a token is in the share, which nearly always succeeds
// the first time: that takes one pass over the row per draw, while computing the share takes many. -1: it did not succeed.
int32_t draw_from_row(const Row & row, float best, float floor, float bar, const ls_params & p,
                      Scratch & scratch) {
    const float scale = kLog2E / p.temperature;
    auto weight = [&](int32_t i) { return row[i] < bar ? 0.0f : power_of_2(scaled(row[i] - best, scale)); };
    double wanted = 0;
    if (p.top_p < 1) {
        scratch.sums.resize(num_blocks(row.vocab));
        sum_row(row, best, kLog2E, floor, scratch.sums.data());
        wanted = p.top_p * total(scratch.sums);
        if (scale >= kLog2E && scale <= 2 * kLog2E)
            return draw_plainly(row, best, floor, bar, p, wanted, scratch.sums);
    }
    scratch.proposals.resize(num_blocks(row.vocab));
    sum_row(row, best, scale, bar, scratch.proposals.data());
    if (p.top_p >= 1) return drawn(scratch.proposals, row.vocab, uniform(p.seed, p.draw, 0), weight);
    for (int tries = 0; tries < kTries; tries++) {
        const int32_t token = drawn(scratch.proposals, row.vocab, uniform(p.seed, p.draw, tries), weight);
        if (token >= 0 && weight_before(row, best, floor, token) < wanted) return token;
    }
    return -1;
}

// The `count` likeliest as candidates. Allowed tokens are gathered first if few are allowed or many are wanted.
void keep_first(const Row & row, float best, int32_t count, Scratch & scratch) {
    const bool is_small = count <= row.vocab / kWide / 2;
    if (is_small && (row.mask == nullptr || num_allowed(row.mask, row.vocab) > row.vocab / kScarce))
        return keep_likeliest(row, count, scratch);
    keep_all(row, scratch.kept);
    cut_to_count(scratch.kept, best, count, scratch);
}

// `first` is the row's best, whose logit is a finite number.
int32_t choose(const Row & row, const Best & first, const ls_params & p, Scratch & scratch, float & mu) {
    if (p.temperature < kGreedy) return place_of(row, first);
    const float best = first.logit;
    const float floor = p.top_n_sigma > 0 ? sigma_bar(row, best, p.top_n_sigma) : kForbidden;
    const float least = p.min_p > 0 ? static_cast<float>(best + std::log(static_cast<double>(p.min_p))) : kForbidden;
    const float bar = std::max(floor, least);
    const bool some = p.top_k > 0 && p.top_k < row.vocab;
    const bool rare = p.typical_p < 1 || p.xtc_probability > 0 || p.dynatemp_range > 0 || p.mirostat != 0;
    if (!some && !rare) {
        const int32_t token = draw_from_row(row, best, floor, bar, p, scratch);
        if (token >= 0) return token;
    }
    Kept & kept = scratch.kept;
    if (some)
        keep_first(row, best, p.top_k, scratch);
    else
        keep_all(row, kept);
    keep_from(kept, floor);
    if (p.typical_p < 1) cut_to_typical(kept, best, p.typical_p, scratch);
    const float top = largest_of(kept); // the likeliest token need not be typical
    if (p.top_p < 1) cut_to_share(kept, top, p.top_p, scratch);
    if (p.min_p > 0) keep_from(kept, static_cast<float>(top + std::log(static_cast<double>(p.min_p))));
    if (p.xtc_probability > 0) exclude_top_choices(kept, top, p, scratch);
    const float from = largest_of(kept);
    const float temperature = p.dynatemp_range > 0 ? dynamic_temperature(kept, from, p, scratch) : p.temperature;
    if (temperature < kGreedy) return kept.tokens[static_cast<size_t>(first_of(kept.logits.data(), kept.size, from))];
    if (p.mirostat != 0) cut_by_surprise(kept, from, temperature, row.vocab, p, scratch);
    weigh(kept, from, kLog2E / temperature, scratch);
    const float * weights = scratch.weights.data();
    const int32_t chosen = drawn(scratch.sums, kept.size, uniform(p.seed, p.draw, kTries), [&](int32_t i) { return weights[i]; });
    if (p.mirostat != 0) {
        const double surprise = -std::log2(weights[chosen] / total(scratch.sums));
        mu = static_cast<float>(p.mirostat_mu - p.mirostat_eta * (surprise - p.mirostat_tau));
    }
    return kept.tokens[static_cast<size_t>(chosen)];
}

float log_share(float logit, double whole) {
    return static_cast<float>(std::max(logit - whole, -static_cast<double>(kHuge)));
}

// Log-probabilities are the model's own: of the original row, without mask and adjustments.
void report(const Row & row, float best, const ls_params & p, Scratch & scratch, ls_result & result) {
    scratch.sums.resize(num_blocks(row.vocab));
    sum_row(row, best, kLog2E, kForbidden, scratch.sums.data());
    const double whole = std::log(total(scratch.sums)) + best;
    result.logprob = log_share(row[result.token], whole);
    if (p.num_top == 0) return;
    const Candidates & top = likeliest(row, std::min<int32_t>(p.num_top, LS_MAX_TOP), scratch);
    result.num_top = static_cast<int32_t>(top.size());
    for (int32_t i = 0; i < result.num_top; i++) {
        result.top[i] = top[static_cast<size_t>(i)].token;
        result.top_logprobs[i] = log_share(top[static_cast<size_t>(i)].logit, whole);
    }
}

void sample(const float * logits, int32_t vocab, const ls_params & p, Scratch & scratch, ls_result & result) {
    result.num_top = 0;
    result.mirostat_mu = p.mirostat_mu;
    result.token = LS_NOT_FINITE;
    scratch.likeliest_of = nullptr;
    const Row all = {logits, vocab, nullptr};
    Row row = {logits, vocab, p.mask};
    const Best asked = best_of(row);
    if (!asked.is_sound) return;
    // Needed only to report log-probabilities, or to tell a mask that allows nothing from a row without finite numbers.
    const Best own = p.mask != nullptr && (p.num_top >= 0 || asked.logit == kForbidden) ? best_of(all) : asked;
    if (own.logit == kForbidden) return;
    Best best = asked;
    if (p.num_biased > 0 || p.num_repeated > 0 || p.num_counted > 0 || p.num_lessened > 0) {
        float * changed = room(scratch.row, vocab);
        copy_allowed(row, changed);
        change(changed, p);
        row.logits = changed;
        best = best_of(row);
    }
    if (best.logit == kForbidden) result.token = p.mask == nullptr ? LS_FORBIDDEN : LS_NOTHING_ALLOWED;
    else result.token = choose(row, best, p, scratch, result.mirostat_mu);
    if (p.num_top >= 0 && result.token >= 0) report(all, own.logit, p, scratch, result);
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
    // The whole team, even for fewer rows: a smaller team would end the other threads, and the next decode restart them.
    if (team != nullptr) return team([](void * data) { (*static_cast<decltype(work) *>(data))(); }, &work, threads, 0);
    std::vector<std::thread> helpers;
    try {
        for (int32_t i = 1; i < std::min(threads, num_rows); i++) helpers.emplace_back(work);
    } catch (const std::system_error &) {}  // no more threads: those there are, and this one, do the work
    work();
    for (std::thread & helper : helpers) helper.join();
}
