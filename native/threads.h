/* Threads that run one kernel together, each with its own id. */
#ifndef HORNBEAM_THREADS_H
#define HORNBEAM_THREADS_H

#include "calls.h"

typedef struct Threads Threads;

/* Return threads of which none has started, or NULL without memory. For so many
 * nanoseconds after a job they look for the next one before they sleep. */
Threads *make_threads(int64_t spin_ns);
/* End the threads. */
void end_threads(Threads *threads);

/* A call of a kernel in the first `count` threads, the calling one included, with the
 * first word set to the number of the thread. */
typedef struct {
    Entry entry;
    const int64_t *words;
    int n_words, count;
    const char *name;
} Call;

/* The calls of a job, one after the other, and all of them `times` times. */
typedef struct {
    const Call *calls;
    int n_calls;
    int64_t times;
    int64_t *shared;      /* the words that threads share, cleared between two calls */
    const int64_t *ended; /* the job ends after the call that sets it; or NULL */
} Job;

typedef struct {
    int64_t done;       /* how often all calls have been made */
    int32_t status;     /* of a call that failed, or NO_THREAD, or 0 */
    const Call *failed; /* that one, and its error */
    void *error;
} Outcome;

/* A thread did not start. */
#define NO_THREAD (-1000)

/* Run a job, and wait until all threads have returned. One of the shared words is set
 * when a call fails, because others may wait for it at a barrier. One job at a time. */
Outcome run_threads(Threads *threads, const Job *job);

#endif
