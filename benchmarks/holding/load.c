/* Programs that use CPU time as pods do, and count what they get done in a file that others can read.
 *
 *   load FILE compute THREADS                       always computes
 *   load FILE phases  THREADS BUSY IDLE BARRIER     computes and sleeps by turns
 *   load FILE service THREADS WORK EVERY ON OFF     answers requests, whether it keeps up or not
 *
 * Times are in microseconds. BUSY and WORK are CPU time, IDLE, EVERY, ON and OFF are time that passes.
 * BARRIER says how threads meet at the end of each busy phase: "apart" (they do not), "sleep" (who
 * comes early sleeps) or "spin" (who comes early spins). Requests of a service come at random, one in
 * EVERY on average while it is ON (Poisson), none while it is OFF; the time of an answer counts from
 * the moment when its request was due.
 *
 * Nothing runs before a line comes from the standard input, so that the program can be put in a cgroup
 * first. It ends with its parent. Others read its figures from FILE, for which it need not run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 256, MOST_ANSWERS = 1 << 18, CACHE_LINE = 64, STEPS = 2000 };
static const int64_t SECOND = 1000000000;

/* The layout of FILE, which programs.py reads. */
struct figures {
    struct {
        _Alignas(CACHE_LINE) _Atomic uint64_t blocks; /* equal pieces of work that a thread has done */
    } done[MOST_THREADS];
    _Alignas(CACHE_LINE) _Atomic uint64_t answers;
    uint32_t took[MOST_ANSWERS]; /* microseconds of each answer, the oldest overwritten first */
};

static struct figures *figures;
static int threads;
static int64_t busy, idle, work, every, on, off;
static enum { APART, SLEEP, SPIN } barrier = APART;
static pthread_barrier_t sleeping;
static _Atomic uint32_t waiting, round_number;

static int64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static void sleep_until(int64_t when)
{
    struct timespec time = {when / SECOND, when % SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
        ;
}

/* Do a piece of work of a few microseconds, which no compiler can leave out. */
static void do_block(int thread)
{
    static _Thread_local volatile uint32_t kept = 1;
    uint32_t number = kept;
    for (int step = 0; step < STEPS; step++)
        number = number * 1664525u + 1013904223u;
    kept = number;
    uint64_t before = atomic_load_explicit(&figures->done[thread].blocks, memory_order_relaxed);
    atomic_store_explicit(&figures->done[thread].blocks, before + 1, memory_order_relaxed);
}

static void compute_for(int thread, int64_t cpu_time)
{
    int64_t end = now(CLOCK_THREAD_CPUTIME_ID) + cpu_time;
    do
        do_block(thread);
    while (now(CLOCK_THREAD_CPUTIME_ID) < end);
}

static void meet(void)
{
    if (barrier == SLEEP)
        pthread_barrier_wait(&sleeping);
    if (barrier != SPIN)
        return;
    uint32_t mine = atomic_load(&round_number);
    if (atomic_fetch_add(&waiting, 1) + 1 == (uint32_t)threads) {
        atomic_store(&waiting, 0);
        atomic_fetch_add(&round_number, 1);
    } else
        while (atomic_load(&round_number) == mine)
            ;
}

static _Noreturn void *always_compute(void *thread)
{
    for (;;)
        do_block((int)(intptr_t)thread);
}

static _Noreturn void *compute_in_phases(void *thread)
{
    for (;;) {
        compute_for((int)(intptr_t)thread, busy);
        meet();
        if (idle)
            sleep_until(now(CLOCK_MONOTONIC) + idle);
    }
}

static double random_part(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 1) / 9007199254740992.0;
}

/* Return when the next request is due; threads take requests in order. */
static int64_t next_request(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t begin, due;
    pthread_mutex_lock(&lock);
    if (!begin)
        begin = due = now(CLOCK_MONOTONIC);
    due += (int64_t)(-log(random_part()) * (double)every);
    int64_t phase = (due - begin) % (on + off);
    if (phase >= on)
        due += on + off - phase;
    int64_t mine = due;
    pthread_mutex_unlock(&lock);
    return mine;
}

static _Noreturn void *answer_requests(void *thread)
{
    for (;;) {
        int64_t due = next_request();
        if (now(CLOCK_MONOTONIC) < due)
            sleep_until(due);
        compute_for((int)(intptr_t)thread, work);
        uint64_t number = atomic_fetch_add(&figures->answers, 1);
        figures->took[number % MOST_ANSWERS] = (uint32_t)((now(CLOCK_MONOTONIC) - due) / 1000);
    }
}

static struct figures *open_figures(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct figures))) {
        perror(path);
        exit(1);
    }
    void *at = mmap(NULL, sizeof(struct figures), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    return at;
}

int main(int count, char **words)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1000);
    const char *kind = count > 3 ? words[2] : "";
    int64_t times[4] = {0};
    for (int word = 4; word < count && word < 8; word++)
        times[word - 4] = atoll(words[word]) * 1000;
    threads = count > 3 ? atoi(words[3]) : 0;
    void *(*run)(void *) = NULL;
    if (!strcmp(kind, "compute"))
        run = always_compute;
    else if (!strcmp(kind, "phases") && count == 7) {
        run = compute_in_phases;
        busy = times[0], idle = times[1];
        barrier = !strcmp(words[6], "sleep") ? SLEEP : !strcmp(words[6], "spin") ? SPIN : APART;
    } else if (!strcmp(kind, "service") && count == 8) {
        run = answer_requests;
        work = times[0], every = times[1], on = times[2], off = times[3];
    }
    if (!run || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "load: see load.c for what can be asked for\n");
        return 2;
    }
    figures = open_figures(words[1]);
    pthread_barrier_init(&sleeping, NULL, (unsigned)threads);
    if (getchar() == EOF)
        return 0;
    for (intptr_t thread = 0; thread < threads; thread++) {
        pthread_t started;
        pthread_create(&started, NULL, run, (void *)thread);
    }
    for (;;)
        pause();
}
