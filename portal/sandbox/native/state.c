/* What the mock library answers from: the state directory, the device nodes that this process sees, the GPUs' load. */
#define _GNU_SOURCE
#include "state.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATE_BYTES 65536
device devices[MAX_GPUS];
int initialised;
static __thread char state[STATE_BYTES];

/* ---- state ------------------------------------------------------------------------------------------------- */

const char *state_dir(void) {
  const char *dir = getenv("MOCK_NVML_DIR");
  return dir ? dir : "/run/mock-nvml";
}

void load(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/state", state_dir());
  size_t used = 0;
  state[0] = '\n';
  FILE *file = fopen(path, "re");
  if (file) {
    used = fread(state + 1, 1, sizeof state - 2, file);
    fclose(file);
  }
  state[used + 1] = 0;
}

int find(const char *key, char *out, size_t size) {
  char pattern[96];
  char *hit = NULL;
  snprintf(pattern, sizeof pattern, "\n%s=", key);
  for (char *at = strstr(state, pattern); at; at = strstr(at + 1, pattern)) hit = at;
  if (!hit) return 0;
  hit += strlen(pattern);
  size_t length = strcspn(hit, "\n");
  if (length >= size) length = size - 1;
  memcpy(out, hit, length);
  out[length] = 0;
  return 1;
}

int gpu_find(int minor, const char *key, char *out, size_t size) {
  char full[96];
  snprintf(full, sizeof full, "gpu%d.%s", minor, key);
  if (find(full, out, size)) return 1;
  snprintf(full, sizeof full, "default.%s", key);
  return find(full, out, size);
}

long long number(const char *key, long long otherwise) {
  char text[64];
  return find(key, text, sizeof text) ? strtoll(text, NULL, 0) : otherwise;
}

long long gpu_number(int minor, const char *key, long long otherwise) {
  char text[64];
  return gpu_find(minor, key, text, sizeof text) ? strtoll(text, NULL, 0) : otherwise;
}

int copy_out(const char *text, char *out, u32 size) {
  if (strlen(text) + 1 > size) return NVML_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

int gpu_text(int minor, const char *key, const char *otherwise, char *out, u32 size) {
  char text[256];
  return copy_out(gpu_find(minor, key, text, sizeof text) ? text : otherwise, out, size);
}

int list_has(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == length && !strncmp(at, word, length)) return 1;
  return 0;
}

int supported(int minor, const char *feature) {
  char list[256];
  return !(gpu_find(minor, "unsupported", list, sizeof list) && list_has(list, feature));
}

/* ---- which GPUs this process may see -------------------------------------------------------------------------- */

int has_node(const char *name) {
  char path[4096];
  const char *dev = getenv("MOCK_NVML_DEV");
  snprintf(path, sizeof path, "%s/%s", dev ? dev : "/dev", name);
  return access(path, F_OK) == 0;
}

int visible(int minor) {
  char name[32];
  snprintf(name, sizeof name, "nvidia%d", minor);
  return has_node(name);
}

int gpu_slots(void) {
  long long count = number("count", 8);
  return count < 0 ? 0 : count > MAX_GPUS ? MAX_GPUS : (int)count;
}

int lost_code(int minor) {
  if (gpu_number(minor, "lost", 0)) return NVML_GPU_IS_LOST;
  return (int)gpu_number(minor, "error", 0);
}

int check(device *d) {
  if (!initialised) return NVML_UNINITIALIZED;
  if (d < devices || d >= devices + MAX_GPUS) return NVML_INVALID_ARGUMENT;
  load();
  return lost_code(d->minor);
}

/* ---- load: a GPU that a container holds is shown as busy -------------------------------------------------------- */

static int on_the_node(void) { return access("/usr/lib/berth-sandbox", F_OK) == 0; }

static int file_has(const char *path, const char *word) {
  char text[4096];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return 0;
  text[got] = 0;
  return strstr(text, word) != NULL;
}

/* The entry counts only while that container's process lives and has left runc's waiting stage. */
static int holder_runs(int pid, const char *container_id) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
  if (!file_has(path, container_id)) return 0;
  snprintf(path, sizeof path, "/proc/%d/comm", pid);
  return !file_has(path, "runc:[");
}

static int holders(int minor, u32 *pids, int room) {
  char path[4096];
  int count = 0;
  snprintf(path, sizeof path, "%s/busy/%d", state_dir(), minor);
  DIR *dir = opendir(path);
  if (!dir) return 0;
  for (struct dirent *entry; (entry = readdir(dir)) && count < room;) {
    if (entry->d_name[0] == '.') continue;
    char full[4400];
    int pid = 0;
    snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
    FILE *file = fopen(full, "re");
    if (!file) continue;
    if (fscanf(file, "%d", &pid) != 1) pid = 0;
    fclose(file);
    if (pid > 0 && (!on_the_node() || holder_runs(pid, entry->d_name))) pids[count++] = (u32)pid;
  }
  closedir(dir);
  return count;
}

int busy(int minor) {
  u32 pids[MAX_GPUS];
  return holders(minor, pids, MAX_GPUS);
}

/* A value that moves a little each second but is the same in every process. */
static long long wobble(int minor, long long low, long long high) {
  u64 x = (u64)time(NULL) * 2654435761u + (u64)minor * 40503u;
  x ^= x >> 13;
  return low + (long long)(x % (u64)(high - low + 1));
}

long long level(int minor, const char *key, long long idle, long long low, long long high) {
  char text[64];
  if (gpu_find(minor, key, text, sizeof text)) return strtoll(text, NULL, 0);
  return busy(minor) ? wobble(minor, low, high) : idle;
}

u64 memory_total(int minor) { return (u64)gpu_number(minor, "mem_total", 81559LL << 20); }
static u64 memory_each(int minor, int count) { return memory_total(minor) / 100 * 70 / (u64)count; }

int processes(int minor, u32 room, process_info *out) {
  char text[1024];
  u32 pids[MAX_GPUS];
  u32 count = 0;
  char *rest;
  if (gpu_find(minor, "procs", text, sizeof text)) { /* procs=PID:BYTES,PID:BYTES */
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest), count++) {
      if (count >= room) continue;
      char *bytes = strchr(word, ':');
      out[count] = (process_info){(u32)atoi(word), 0, bytes ? strtoull(bytes + 1, NULL, 0) : 0, ~0u, ~0u};
    }
    return (int)count;
  }
  if (!on_the_node()) return 0; /* the pids are the node's: inside a container they would name something else */
  int held = holders(minor, pids, MAX_GPUS);
  for (int i = 0; i < held; i++)
    if ((u32)i < room) out[i] = (process_info){pids[i], 0, memory_each(minor, held), ~0u, ~0u};
  return held;
}

u64 memory_used(int minor) {
  process_info list[MAX_GPUS];
  u64 used = 0;
  char text[64];
  if (gpu_find(minor, "mem_used", text, sizeof text)) return strtoull(text, NULL, 0);
  if (!gpu_find(minor, "procs", text, sizeof text)) {
    int held = busy(minor);
    return held ? memory_each(minor, held) * (u64)held : 0;
  }
  int count = processes(minor, MAX_GPUS, list);
  for (int i = 0; i < count && i < MAX_GPUS; i++) used += list[i].used;
  return used;
}
