/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Cubic or Reno whose increase is multiplied by 1 + sent/total of the socket's communication phase
 * (`hocket_adaptive`), or by a constant (`hocket_weighted`): HotNets'22 section 4(i), which multiplies the
 * R_AI of DCQCN. Slow start, the decrease and recovery are the kernel's own.
 *
 * The kernel functions called here are restricted to programs under the GPL, hence this file's second
 * licence and the licence that the program declares.
 */

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char licence[] SEC("license") = "GPL";

/* Factors are integers in 1/65536, like all weights in Hocket. */
#define ONE (1 << 16)

/* A socket's total is the largest of its last 8 to 16 phases, so that a barrier or a scalar between two large
 * all-reduces does not count as a phase of the job's usual size. Hocket: the paper assumes a known size.
 */
#define PHASES_REMEMBERED 8

/* Lets sockets in other network namespaces and of users without CAP_NET_ADMIN choose the algorithm:
 * TCP_CONG_NON_RESTRICTED of include/net/tcp.h.
 */
#define NON_RESTRICTED 1

/* The fields of kernel types that are read here; the loader relocates them for the running kernel. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	__u16 skc_family;
};

struct sock {
	struct sock_common __sk_common;
};

struct tcp_sock {
	__u64 bytes_acked;
	__u32 packets_out;
	__u32 srtt_us; /* eighths of a microsecond */
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
};

struct ack_sample {
	__u32 pkts_acked;
};

enum tcp_ca_event {
	CA_EVENT_TX_START,
};

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
#ifdef HAS_TX_START
	void (*cwnd_event_tx_start)(struct sock *sk);
#endif
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
};

#pragma clang attribute pop

extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
#ifdef BASE_RENO
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
#define base_ssthresh tcp_reno_ssthresh
#define base_cong_avoid tcp_reno_cong_avoid
#else
extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 state) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
#ifdef HAS_TX_START
extern void cubictcp_cwnd_event_tx_start(struct sock *sk) __ksym;
#else
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
#endif
#define base_ssthresh cubictcp_recalc_ssthresh
#define base_cong_avoid cubictcp_cong_avoid
#endif

/* The settings of `hocket tcp load`; `hocket.tcp.control.Settings` reads them back. */
struct settings {
	__u64 loaded_ns; /* unix time */
	__u64 gap_ns;
	__u32 weight; /* in 1/65536 */
	__u32 reno; /* 1 if the base is Reno, 0 if it is cubic */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} hocket_settings SEC(".maps");

/* The communication phase of a socket; `hocket.tcp.control.Phase` reads it. */
struct phase {
	__u64 began; /* bytes that the socket had acknowledged when the phase began */
	__u64 acked; /* ... at the last ACK */
	__u64 idle_ns; /* since when nothing is in flight, on the monotonic clock; 0 while something is */
	__u64 largest[2]; /* bytes of the largest complete phase: among the latest, among the 8 before them */
	__u64 total; /* expected bytes of this phase; 0 while unknown */
	__u32 number; /* phases begun */
	__u32 declaration; /* the last one applied */
	__u32 factor; /* of the last increase, in 1/65536 */
	__u32 carry; /* fraction of an acknowledged segment carried over, in 1/65536 */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct phase);
} hocket_phase SEC(".maps");

/* A phase declared by the job: `hocket_agent.set_phase` writes it. */
struct declared {
	__u64 total; /* bytes; 0 to detect phases by gaps again */
	__u32 number; /* of the declaration; another one begins a phase */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct declared);
} hocket_declared SEC(".maps");

static struct settings *settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&hocket_settings, &zero);
}

/* Begins a phase after the bytes acknowledged so far, and records the size of the last one. */
static void begin_phase(struct phase *phase, __u64 declared_total)
{
	__u64 complete = phase->acked - phase->began;

	if (phase->number % PHASES_REMEMBERED == 0) {
		phase->largest[1] = phase->largest[0];
		phase->largest[0] = 0;
	}
	if (complete > phase->largest[0])
		phase->largest[0] = complete;
	phase->total = phase->largest[0] > phase->largest[1] ? phase->largest[0] : phase->largest[1];
	if (declared_total)
		phase->total = declared_total;
	phase->began = phase->acked;
	phase->number++;
}

/* Whether the phase before this ACK is over: nothing was in flight for longer than the gap, and for the round
 * trip of the first ACK afterwards. A timeout is not a gap, as data are in flight all the time.
 */
static int over(const struct phase *phase, const struct tcp_sock *tp, __u64 now, __u64 gap_ns)
{
	__u64 srtt_ns = (__u64)tp->srtt_us * 1000 / 8;

	return phase->number == 0 || (phase->idle_ns && now - phase->idle_ns > gap_ns + srtt_ns);
}

/* Updates the socket's phase with the bytes acknowledged by now. */
static void follow(struct sock *sk)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	struct declared *declared = bpf_sk_storage_get(&hocket_declared, sk, 0, 0);
	struct phase *phase = bpf_sk_storage_get(&hocket_phase, sk, 0, 0);
	struct settings *set = settings();
	__u64 now = bpf_ktime_get_ns();

	if (!phase || !set)
		return;
	if (declared && declared->number != phase->declaration) {
		phase->declaration = declared->number;
		begin_phase(phase, declared->total);
	} else if ((!declared || !declared->total) && over(phase, tp, now, set->gap_ns)) {
		begin_phase(phase, 0);
	}
	phase->acked = tp->bytes_acked;
	phase->idle_ns = tp->packets_out ? 0 : now;
}

/* 1 + sent/total, where acknowledged bytes count as sent; 1 while the total is unknown, 2 beyond it. */
static __u32 adaptive_factor(const struct phase *phase)
{
	__u64 sent = phase->acked - phase->began;

	if (!phase->total)
		return ONE;
	if (sent >= phase->total)
		return 2 * ONE;
	/* `set_phase` limits totals to 2^47 bytes, so the shift cannot overflow; measured phases are far smaller. */
	return ONE + (sent << 16) / phase->total;
}

/* Cubic and Reno open the window in proportion to the acknowledged segments. The fraction of a segment that is
 * left over counts at the next ACK, so that on average the increase is exactly `factor` times theirs.
 */
static void increase(struct sock *sk, struct phase *phase, __u32 ack, __u32 acked, __u32 factor)
{
	__u64 scaled = (__u64)acked * factor + phase->carry;

	phase->factor = factor;
	phase->carry = scaled % ONE;
	acked = scaled / ONE;
	if (acked)
		base_cong_avoid(sk, ack, acked);
}

/* The socket's phase, if the window grows by congestion avoidance rather than slow start. */
static struct phase *avoiding(struct sock *sk)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;

	return tp->snd_cwnd < tp->snd_ssthresh ? 0 : bpf_sk_storage_get(&hocket_phase, sk, 0, 0);
}

SEC("struct_ops/hk_adaptive")
void BPF_PROG(hk_adaptive, struct sock *sk, __u32 ack, __u32 acked)
{
	struct phase *phase = avoiding(sk);

	if (phase)
		increase(sk, phase, ack, acked, adaptive_factor(phase));
	else
		base_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/hk_weighted")
void BPF_PROG(hk_weighted, struct sock *sk, __u32 ack, __u32 acked)
{
	struct phase *phase = avoiding(sk);
	struct settings *set = settings();

	if (phase && set)
		increase(sk, phase, ack, acked, set->weight);
	else
		base_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/hk_ssthresh")
__u32 BPF_PROG(hk_ssthresh, struct sock *sk)
{
	return base_ssthresh(sk);
}

/* Cubic has no function of its own for this: net/ipv4/tcp_cubic.c. */
SEC("struct_ops/hk_undo_cwnd")
__u32 BPF_PROG(hk_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops/hk_acked")
void BPF_PROG(hk_acked, struct sock *sk, const struct ack_sample *sample)
{
	follow(sk);
#ifndef BASE_RENO
	cubictcp_acked(sk, sample);
#endif
}

/* Called whenever the socket gets the control: bytes sent before belong to no phase. */
SEC("struct_ops/hk_init")
void BPF_PROG(hk_init, struct sock *sk)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	struct phase *phase;

	phase = bpf_sk_storage_get(&hocket_phase, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (phase)
		*phase = (struct phase){ .began = tp->bytes_acked, .acked = tp->bytes_acked };
#ifndef BASE_RENO
	cubictcp_init(sk);
#endif
}

#ifdef BASE_RENO
#define BASE_OPS
#else
SEC("struct_ops/hk_state")
void BPF_PROG(hk_state, struct sock *sk, __u8 state)
{
	cubictcp_state(sk, state);
}

/* Linux 7.1 (commit d1e59a469737) made the start of transmission a separate function. */
#ifdef HAS_TX_START
SEC("struct_ops/hk_tx_start")
void BPF_PROG(hk_tx_start, struct sock *sk)
{
	cubictcp_cwnd_event_tx_start(sk);
}
#define TX_START .cwnd_event_tx_start = (void *)hk_tx_start
#else
SEC("struct_ops/hk_event")
void BPF_PROG(hk_event, struct sock *sk, enum tcp_ca_event event)
{
	cubictcp_cwnd_event(sk, event);
}
#define TX_START .cwnd_event = (void *)hk_event
#endif
#define BASE_OPS .set_state = (void *)hk_state, TX_START,
#endif

/* The two controls differ only in the factor of the increase. */
#define CONTROL(control, increase) \
	SEC(".struct_ops") \
	struct tcp_congestion_ops control = { \
		.cong_avoid = (void *)increase, \
		.ssthresh = (void *)hk_ssthresh, \
		.undo_cwnd = (void *)hk_undo_cwnd, \
		.pkts_acked = (void *)hk_acked, \
		.init = (void *)hk_init, \
		BASE_OPS \
		.flags = NON_RESTRICTED, \
		.name = #control, \
	}

CONTROL(hocket_adaptive, hk_adaptive);
CONTROL(hocket_weighted, hk_weighted);
