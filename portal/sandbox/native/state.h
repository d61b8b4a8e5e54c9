/* libnvidia-ml.so.1 of a sandbox node: answers from a state directory, so that unmodified bindings load it.
 *
 * $MOCK_NVML_DIR (default /run/mock-nvml) holds
 *   state            "key=value" lines, re-read at each call, the last line of a key wins; written by rename
 *   events           lines "xid=<minor>:<code>", read from where the file ended when the event set was made
 *   busy/<minor>/ID  one file per container that holds the GPU, its text the pid of the container's first process
 * Keys: driver, nvml, cuda, count, init_error, and per GPU gpu<minor>.<name> or default.<name>.
 *   gpu3.lost=1              fell off the bus: handle look-ups and calls answer GPU_IS_LOST
 *   gpu3.error=<code>        every call on that GPU answers this code
 *   gpu3.unsupported=ecc,mig these answer NOT_SUPPORTED
 * A GPU is visible only where its device node is: /dev/nvidia<minor> (or below $MOCK_NVML_DEV). A container that was
 * given two GPUs therefore counts two, numbered from 0, as with the real library.
 */
#ifndef BERTH_SANDBOX_STATE_H
#define BERTH_SANDBOX_STATE_H

#include "nvml.h"
#include <stddef.h>

#define API __attribute__((visibility("default")))
#define MAX_GPUS 64
#define MAX_LINKS 18

struct nvml_device { int minor; };
extern device devices[MAX_GPUS];
extern int initialised;

#define ENTER(d) do { int code_ = check(d); if (code_) return code_; } while (0)
#define NEEDS(d, feature) do { if (!supported((d)->minor, feature)) return NVML_NOT_SUPPORTED; } while (0)

void load(void);
int find(const char *key, char *out, size_t size);
int gpu_find(int minor, const char *key, char *out, size_t size);
long long number(const char *key, long long otherwise);
long long gpu_number(int minor, const char *key, long long otherwise);
int copy_out(const char *text, char *out, u32 size);
int gpu_text(int minor, const char *key, const char *otherwise, char *out, u32 size);
int list_has(const char *list, const char *word);
int supported(int minor, const char *feature);
int has_node(const char *name);
int visible(int minor);
int gpu_slots(void);
int lost_code(int minor);
int check(device *d);
int busy(int minor);
long long level(int minor, const char *key, long long idle, long long low, long long high);
u64 memory_total(int minor);
int processes(int minor, u32 room, process_info *out);
u64 memory_used(int minor);
const char *state_dir(void);

#endif
