/* Threads wait for a job in the processor before they sleep: a round of training hands
 * out a few jobs a fraction of a millisecond apart, and to wake a thread that sleeps
 * takes 30 to 90 microseconds. None of them needs Python's lock. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "threads.h"

/* The versions that glibc has had from the beginning: newer ones would need its 2.34. */
#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_sigmask, pthread_sigmask@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.17");
__asm__(".symver pthread_sigmask, pthread_sigmask@GLIBC_2.17");
#endif

/* A job is announced by one word, the number of the job and its threads, so that a
 * thread that has no part in it looks at nothing else, which may change meanwhile. */
#define COUNT_BITS 16
#define ENDED 0xffffu
#define LOOKS_A_CLOCK 64
/* How often a thread looks whether the others have arrived before it yields. */
#define LOOKS_A_YIELD 1500

struct Threads {
    _Atomic uint64_t job;
    char apart[56]; /* a cache line for what others write meanwhile */
    _Atomic int unfinished;
    _Atomic int sleeping;
    _Atomic int32_t status;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int64_t spin_ns;
    int n_started;
    pid_t process;
    /* Of the job. */
    const Job *own;
    int count;
    int has_ended;
    Outcome outcome;
    char apart_from_others[64];
    _Atomic int arrived;
    _Atomic unsigned meetings;
};

typedef struct {
    Threads *threads;
    int number;
    uint64_t seen;
} Start;

static void pause_processor(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Return the word of the next job. */
static uint64_t next_job(Threads *threads, uint64_t seen)
{
    uint64_t job;
    if (threads->spin_ns > 0) {
        int64_t end = nanoseconds() + threads->spin_ns;
        for (unsigned looks = 1;; looks++) {
            if ((job = atomic_load(&threads->job)) != seen)
                return job;
            pause_processor();
            if (looks % LOOKS_A_CLOCK == 0 && nanoseconds() > end)
                break;
        }
    }
    pthread_mutex_lock(&threads->lock);
    atomic_fetch_add(&threads->sleeping, 1);
    while ((job = atomic_load(&threads->job)) == seen)
        pthread_cond_wait(&threads->wake, &threads->lock);
    atomic_fetch_sub(&threads->sleeping, 1);
    pthread_mutex_unlock(&threads->lock);
    return job;
}

static void announce(Threads *threads, unsigned count)
{
    uint64_t number = (atomic_load(&threads->job) >> COUNT_BITS) + 1;
    atomic_store(&threads->job, number << COUNT_BITS | count);
    /* A thread counts itself before it looks a last time, so that either it sees the
     * job or is seen here. */
    if (atomic_load(&threads->sleeping) > 0) {
        pthread_mutex_lock(&threads->lock);
        pthread_cond_broadcast(&threads->wake);
        pthread_mutex_unlock(&threads->lock);
    }
}

/* Wait for all threads after a call; return whether the job goes on. The last one to
 * arrive decides that, and clears what they share. */
static int meet(Threads *threads, int is_last_call)
{
    const Job *job = threads->own;
    unsigned meeting = atomic_load(&threads->meetings);
    if (atomic_fetch_add(&threads->arrived, 1) == threads->count - 1) {
        threads->has_ended = atomic_load(&threads->status) != 0 ||
                             (job->ended != NULL && *job->ended != 0);
        if (!threads->has_ended && is_last_call)
            threads->has_ended = ++threads->outcome.done == job->times;
        if (!threads->has_ended)
            memset(job->shared, 0, sizeof(int64_t) * SYNC_SIZE);
        atomic_store(&threads->arrived, 0);
        atomic_fetch_add(&threads->meetings, 1);
    }
    for (unsigned looks = 1; atomic_load(&threads->meetings) == meeting; looks++) {
        pause_processor();
        if (looks % LOOKS_A_YIELD == 0)
            sched_yield();
    }
    return !threads->has_ended;
}

static void make_call(Threads *threads, const Call *call, int number)
{
    int64_t words[MOST_WORDS], result[MOST_RESULTS];
    void *error = NULL;
    memcpy(words, call->words, sizeof(int64_t) * (size_t)call->n_words);
    words[0] = number;
    int32_t status = call->entry(words, result, &error);
    int32_t none = 0;
    if (status != 0 && atomic_compare_exchange_strong(&threads->status, &none, status)) {
        threads->outcome.failed = call;
        threads->outcome.error = error;
        __atomic_store_n(threads->own->shared + STOP_WORD, 1, __ATOMIC_SEQ_CST);
    }
}

static void run_part(Threads *threads, int number)
{
    const Job *job = threads->own;
    for (int i = 0;; i = (i + 1) % job->n_calls) {
        if (number < job->calls[i].count)
            make_call(threads, job->calls + i, number);
        /* All threads of a single call are waited for after it anyway. */
        if (job->n_calls == 1 && job->times == 1)
            return;
        if (!meet(threads, i == job->n_calls - 1))
            return;
    }
}

/* The last one frees what all have used. */
static void leave(Threads *threads)
{
    if (atomic_fetch_sub(&threads->unfinished, 1) == 1)
        free(threads);
}

static void *work(void *argument)
{
    Start start = *(Start *)argument;
    Threads *threads = start.threads;
    free(argument);
#if defined(__linux__)
    char name[16];
    snprintf(name, sizeof name, "hornbeam_%d", (start.number - 1) % 100000);
    prctl(PR_SET_NAME, name);
#endif
    for (uint64_t seen = start.seen;;) {
        seen = next_job(threads, seen);
        unsigned count = (unsigned)(seen & ENDED);
        if (count == ENDED)
            break;
        if (start.number < (int)count) {
            run_part(threads, start.number);
            atomic_fetch_sub(&threads->unfinished, 1);
        }
    }
    leave(threads);
    return NULL;
}

static int start_thread(Threads *threads)
{
    Start *start = malloc(sizeof *start);
    pthread_attr_t detached;
    if (start == NULL || pthread_attr_init(&detached) != 0) {
        free(start);
        return 0;
    }
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    *start = (Start){threads, threads->n_started + 1, atomic_load(&threads->job)};
    /* Signals are for the threads of Python. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, &detached, work, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    if (failed) {
        free(start);
        return 0;
    }
    threads->n_started++;
    return 1;
}

static void reset(Threads *threads)
{
    atomic_init(&threads->job, 0);
    atomic_init(&threads->sleeping, 0);
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->wake, NULL);
    threads->n_started = 0;
    threads->process = getpid();
}

Threads *make_threads(int64_t spin_ns)
{
    Threads *threads = calloc(1, sizeof *threads);
    if (threads != NULL) {
        threads->spin_ns = spin_ns;
        reset(threads);
    }
    return threads;
}

void end_threads(Threads *threads)
{
    /* A fork has none of them. */
    if (threads->n_started == 0 || threads->process != getpid()) {
        free(threads);
        return;
    }
    atomic_store(&threads->unfinished, threads->n_started + 1);
    announce(threads, ENDED);
    leave(threads);
}

Outcome run_threads(Threads *threads, const Job *job)
{
    const Outcome no_thread = {.status = NO_THREAD};
    int count = 1;
    for (int i = 0; i < job->n_calls; i++)
        if (job->calls[i].count > count)
            count = job->calls[i].count;
    if (count >= (int)ENDED)
        return no_thread;
    if (threads->process != getpid())
        reset(threads);
    while (threads->n_started < count - 1)
        if (!start_thread(threads))
            return no_thread;
    threads->own = job;
    threads->count = count;
    threads->has_ended = 0;
    threads->outcome = (Outcome){0};
    atomic_store(&threads->status, 0);
    atomic_store(&threads->arrived, 0);
    atomic_store(&threads->unfinished, count - 1);
    if (count > 1)
        announce(threads, (unsigned)count);
    run_part(threads, 0);
    for (unsigned looks = 1; atomic_load(&threads->unfinished) > 0; looks++) {
        pause_processor();
        if (looks % LOOKS_A_CLOCK == 0)
            sched_yield();
    }
    threads->outcome.status = atomic_load(&threads->status);
    return threads->outcome;
}
