#include "interrupt.h"

#include <atomic>
#include <chrono>
#include <limits>
#include <vector>

namespace {

constexpr int64_t NEVER = std::numeric_limits<int64_t>::max();

int64_t now_ns() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

int64_t after_ns(double seconds) {
    return seconds < 1e9 ? now_ns() + (seconds > 0 ? static_cast<int64_t>(seconds * 1e9) : 0) : NEVER;
}

} // namespace

struct li_state {
    void *memory;
    li_pos_max pos_max;
    std::atomic<int64_t> end_ns{NEVER};  // when the decode ends at the latest
    std::atomic<bool> is_asked{false};   // requested to end at its next ubatch
    std::atomic<int64_t> num_nodes{0};
    // Used only by the decoding thread:
    bool listens = false;
    bool has_begun = false;              // a node of this decode was computed
    int64_t positions = 0;               // of the current ubatch
    int64_t ubatch_began_ns = 0;
    int64_t lost_ns = 0;
    int64_t stop_after = -1;
    std::vector<int32_t> sequences;

    void end_by(int64_t time_ns) {
        int64_t known = end_ns.load(std::memory_order_relaxed);
        while (time_ns < known && !end_ns.compare_exchange_weak(known, time_ns, std::memory_order_relaxed)) {
        }
    }

    // Changes with every ubatch: llama.cpp records its positions before computing it.
    int64_t sum_of_positions() const {
        int64_t sum = 0;
        for (const int32_t sequence : sequences) {
            sum += pos_max(memory, sequence);
        }
        return sum;
    }

    // Whether an ubatch has just been completed.
    bool is_at_next_ubatch(int64_t time_ns) {
        const int64_t sum = sum_of_positions();
        if (has_begun && sum == positions) {
            return false;
        }
        const bool is_next = has_begun;
        has_begun = true;
        positions = sum;
        ubatch_began_ns = time_ns;
        return is_next;
    }
};

extern "C" {

int32_t li_abi(void) { return LI_ABI; }

li_state *li_create(void *memory, li_pos_max pos_max) {
    auto *state = new li_state;
    state->memory = memory;
    state->pos_max = pos_max;
    return state;
}

void li_destroy(li_state *state) { delete state; }

void li_interrupt(li_state *state, double within_s) {
    state->is_asked.store(true, std::memory_order_relaxed);
    state->end_by(after_ns(within_s));
}

void li_clear(li_state *state) {
    state->is_asked.store(false, std::memory_order_relaxed);
    state->end_ns.store(NEVER, std::memory_order_relaxed);
}

void li_begin(li_state *state, const int32_t *sequences, int32_t num_sequences, double within_s) {
    state->sequences.assign(sequences, sequences + num_sequences);
    state->has_begun = false;
    state->listens = true;
    // Requested before anything was computed: ending immediately loses nothing.
    state->end_by(after_ns(state->is_asked.load(std::memory_order_relaxed) ? 0 : within_s));
}

void li_end(li_state *state) {
    state->listens = false;
    state->stop_after = -1;
}

int64_t li_num_nodes(const li_state *state) { return state->num_nodes.load(std::memory_order_relaxed); }

int64_t li_lost_ns(const li_state *state) { return state->lost_ns; }

void li_stop_after(li_state *state, int64_t num_nodes) { state->stop_after = num_nodes; }

bool li_should_stop(void *data) {
    auto *state = static_cast<li_state *>(data);
    state->num_nodes.fetch_add(1, std::memory_order_relaxed);
    if (!state->listens) {
        return false;
    }
    const int64_t time_ns = now_ns();
    const bool is_at_next_ubatch = state->is_at_next_ubatch(time_ns);
    const bool stops = (state->stop_after >= 0 && state->stop_after-- == 0) ||
                       time_ns >= state->end_ns.load(std::memory_order_relaxed) ||
                       (is_at_next_ubatch && state->is_asked.load(std::memory_order_relaxed));
    if (stops) {
        state->lost_ns = time_ns - state->ubatch_began_ns;
    }
    return stops;
}
}
