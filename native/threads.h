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

/* Call `entry` in `count` threads, the calling one included, with the first word set to
 * the number of the thread, and wait until all have returned. Return the status of one
 * that failed, whose error is written, or 0. `stop` is set when one fails, because the
 * others may wait for it at a barrier. The status is NO_THREAD if a thread does not
 * start. One job at a time. */
#define NO_THREAD (-1000)
int32_t run_threads(Threads *threads, int count, Entry entry, const int64_t *words,
                    int n_words, int64_t *stop, void **error);

#endif
