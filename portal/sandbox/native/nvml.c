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
#define _GNU_SOURCE
#include "nvml.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAX_GPUS 64
#define MAX_LINKS 18
#define STATE_BYTES 65536

struct nvml_device { int minor; };
static device devices[MAX_GPUS];
static int initialised;
static __thread char state[STATE_BYTES];

/* ---- state ------------------------------------------------------------------------------------------------- */

static const char *state_dir(void) {
  const char *dir = getenv("MOCK_NVML_DIR");
  return dir ? dir : "/run/mock-nvml";
}

static void load(void) {
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

static int find(const char *key, char *out, size_t size) {
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

static int gpu_find(int minor, const char *key, char *out, size_t size) {
  char full[96];
  snprintf(full, sizeof full, "gpu%d.%s", minor, key);
  if (find(full, out, size)) return 1;
  snprintf(full, sizeof full, "default.%s", key);
  return find(full, out, size);
}

static long long number(const char *key, long long otherwise) {
  char text[64];
  return find(key, text, sizeof text) ? strtoll(text, NULL, 0) : otherwise;
}

static long long gpu_number(int minor, const char *key, long long otherwise) {
  char text[64];
  return gpu_find(minor, key, text, sizeof text) ? strtoll(text, NULL, 0) : otherwise;
}

static int copy_out(const char *text, char *out, u32 size) {
  if (strlen(text) + 1 > size) return NVML_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

static int gpu_text(int minor, const char *key, const char *otherwise, char *out, u32 size) {
  char text[256];
  return copy_out(gpu_find(minor, key, text, sizeof text) ? text : otherwise, out, size);
}

static int list_has(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == length && !strncmp(at, word, length)) return 1;
  return 0;
}

static int supported(int minor, const char *feature) {
  char list[256];
  return !(gpu_find(minor, "unsupported", list, sizeof list) && list_has(list, feature));
}

/* ---- which GPUs this process may see -------------------------------------------------------------------------- */

static int has_node(const char *name) {
  char path[4096];
  const char *dev = getenv("MOCK_NVML_DEV");
  snprintf(path, sizeof path, "%s/%s", dev ? dev : "/dev", name);
  return access(path, F_OK) == 0;
}

static int visible(int minor) {
  char name[32];
  snprintf(name, sizeof name, "nvidia%d", minor);
  return has_node(name);
}

static int gpu_slots(void) {
  long long count = number("count", 8);
  return count < 0 ? 0 : count > MAX_GPUS ? MAX_GPUS : (int)count;
}

static int lost_code(int minor) {
  if (gpu_number(minor, "lost", 0)) return NVML_GPU_IS_LOST;
  return (int)gpu_number(minor, "error", 0);
}

static int check(device *d) {
  if (!initialised) return NVML_UNINITIALIZED;
  if (d < devices || d >= devices + MAX_GPUS) return NVML_INVALID_ARGUMENT;
  load();
  return lost_code(d->minor);
}

#define ENTER(d) do { int code_ = check(d); if (code_) return code_; } while (0)
#define NEEDS(d, feature) do { if (!supported((d)->minor, feature)) return NVML_NOT_SUPPORTED; } while (0)

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

static int busy(int minor) {
  u32 pids[MAX_GPUS];
  return holders(minor, pids, MAX_GPUS);
}

/* A value that moves a little each second but is the same in every process. */
static long long wobble(int minor, long long low, long long high) {
  u64 x = (u64)time(NULL) * 2654435761u + (u64)minor * 40503u;
  x ^= x >> 13;
  return low + (long long)(x % (u64)(high - low + 1));
}

static long long level(int minor, const char *key, long long idle, long long low, long long high) {
  char text[64];
  if (gpu_find(minor, key, text, sizeof text)) return strtoll(text, NULL, 0);
  return busy(minor) ? wobble(minor, low, high) : idle;
}

static u64 memory_total(int minor) { return (u64)gpu_number(minor, "mem_total", 81559LL << 20); }
static u64 memory_each(int minor, int count) { return memory_total(minor) / 100 * 70 / (u64)count; }

static int processes(int minor, u32 room, process_info *out) {
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

static u64 memory_used(int minor) {
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

/* ---- library and system --------------------------------------------------------------------------------------- */

API int nvmlInitWithFlags(u32 flags) {
  (void)flags;
  load();
  int error = (int)number("init_error", 0);
  if (error) return error;
  if (!has_node("nvidiactl")) return NVML_DRIVER_NOT_LOADED;
  for (int i = 0; i < MAX_GPUS; i++) devices[i].minor = i;
  initialised++;
  return NVML_SUCCESS;
}

API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlInit(void) { return nvmlInitWithFlags(0); }

API int nvmlShutdown(void) {
  if (!initialised) return NVML_UNINITIALIZED;
  initialised--;
  return NVML_SUCCESS;
}

API const char *nvmlErrorString(int code) {
  switch (code) {
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 7: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 13: return "Function Not Found";
    case 15: return "GPU is lost";
    case 16: return "GPU requires restart";
    case 18: return "Driver/library version mismatch";
    case 25: return "Argument version mismatch";
    default: return "Unknown Error";
  }
}

static int system_text(const char *key, const char *otherwise, char *out, u32 size) {
  char text[256];
  if (!initialised) return NVML_UNINITIALIZED;
  load();
  return copy_out(find(key, text, sizeof text) ? text : otherwise, out, size);
}

API int nvmlSystemGetDriverVersion(char *out, u32 size) { return system_text("driver", "580.95.05", out, size); }
API int nvmlSystemGetNVMLVersion(char *out, u32 size) { return system_text("nvml", "13.580.95.05", out, size); }

API int nvmlSystemGetCudaDriverVersion(int *version) {
  if (!initialised) return NVML_UNINITIALIZED;
  load();
  *version = (int)number("cuda", 13000);
  return NVML_SUCCESS;
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

/* ---- devices --------------------------------------------------------------------------------------------------- */

API int nvmlDeviceGetCount_v2(u32 *count) {
  if (!initialised) return NVML_UNINITIALIZED;
  load();
  *count = 0;
  for (int i = 0; i < gpu_slots(); i++) *count += (u32)visible(i);
  return NVML_SUCCESS;
}

static int hand_out(int minor, device **out) {
  int code = lost_code(minor);
  if (code) return code;
  *out = &devices[minor];
  return NVML_SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(u32 index, device **out) {
  if (!initialised) return NVML_UNINITIALIZED;
  load();
  u32 seen = 0;
  for (int i = 0; i < gpu_slots(); i++)
    if (visible(i) && seen++ == index) return hand_out(i, out);
  return NVML_INVALID_ARGUMENT;
}

static void uuid_of(int minor, char *out, u32 size) {
  char otherwise[48];
  snprintf(otherwise, sizeof otherwise, "GPU-00000000-0000-4000-8000-%012d", minor);
  gpu_text(minor, "uuid", otherwise, out, size);
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, device **out) {
  char own[96];
  if (!initialised) return NVML_UNINITIALIZED;
  load();
  for (int i = 0; i < gpu_slots(); i++) {
    uuid_of(i, own, sizeof own);
    if (visible(i) && !strcmp(own, uuid)) return hand_out(i, out);
  }
  return NVML_NOT_FOUND;
}

static void pci_of(int minor, pci_info *pci) {
  memset(pci, 0, sizeof *pci);
  pci->bus = (u32)gpu_number(minor, "pci_bus", 0x10 + minor * 8);
  pci->device_id = (u32)gpu_number(minor, "pci_device_id", 0x233010de);
  pci->subsystem_id = 0x16c110de;
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
  snprintf(pci->legacy_id, sizeof pci->legacy_id, "0000:%02X:00.0", pci->bus);
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device **out) {
  pci_info pci;
  if (!initialised) return NVML_UNINITIALIZED;
  load();
  for (int i = 0; i < gpu_slots(); i++) {
    pci_of(i, &pci);
    if (visible(i) && (!strcasecmp(pci.bus_id, bus_id) || !strcasecmp(pci.legacy_id, bus_id))) return hand_out(i, out);
  }
  return NVML_NOT_FOUND;
}

API int nvmlDeviceGetIndex(device *d, u32 *index) {
  ENTER(d);
  *index = 0;
  for (int i = 0; i < d->minor; i++) *index += (u32)visible(i);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetName(device *d, char *out, u32 size) {
  ENTER(d);
  return gpu_text(d->minor, "name", "NVIDIA H100 80GB HBM3", out, size);
}

API int nvmlDeviceGetUUID(device *d, char *out, u32 size) {
  ENTER(d);
  uuid_of(d->minor, out, size);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetSerial(device *d, char *out, u32 size) {
  ENTER(d);
  return gpu_text(d->minor, "serial", "0000000000000", out, size);
}

API int nvmlDeviceGetVbiosVersion(device *d, char *out, u32 size) {
  ENTER(d);
  return gpu_text(d->minor, "vbios", "96.00.74.00.01", out, size);
}

API int nvmlDeviceGetMinorNumber(device *d, u32 *minor) {
  ENTER(d);
  *minor = (u32)d->minor;
  return NVML_SUCCESS;
}

/* A plain number of one GPU: state key, its type, the value without the key. */
#define NUMBER(function, type, key, otherwise) \
  API int function(device *d, type *out) { ENTER(d); *out = (type)gpu_number(d->minor, key, otherwise); return NVML_SUCCESS; }

NUMBER(nvmlDeviceGetBrand, int, "brand", 2)
NUMBER(nvmlDeviceGetArchitecture, u32, "architecture", 9)
NUMBER(nvmlDeviceGetPersistenceMode, u32, "persistence", 1)
NUMBER(nvmlDeviceGetComputeMode, u32, "compute_mode", 0)
NUMBER(nvmlDeviceGetPerformanceState, int, "pstate", 0)
NUMBER(nvmlDeviceGetNumaNodeId, u32, "numa", d->minor / 4)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, u32, "power_limit_mw", 700000)
NUMBER(nvmlDeviceGetPowerManagementLimit, u32, "power_limit_mw", 700000)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, u32, "pcie_gen_max", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, u32, "pcie_width_max", 16)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, u32, "pcie_gen", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, u32, "pcie_width", 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, u32, "pcie_replay", 0)

API int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
  ENTER(d);
  int both = (int)gpu_number(d->minor, "compute_capability", 90);
  *major = both / 10;
  *minor = both % 10;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetPciInfo_v3(device *d, pci_info *pci) {
  ENTER(d);
  pci_of(d->minor, pci);
  return NVML_SUCCESS;
}

/* ---- readings --------------------------------------------------------------------------------------------------- */

API int nvmlDeviceGetMemoryInfo(device *d, memory_info *m) {
  ENTER(d);
  NEEDS(d, "memory");
  m->total = memory_total(d->minor);
  m->used = memory_used(d->minor);
  m->free = m->total - m->used;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMemoryInfo_v2(device *d, memory_info_v2 *m) {
  ENTER(d);
  NEEDS(d, "memory");
  if (m->version != (sizeof *m | 2u << 24)) return NVML_VERSION_MISMATCH;
  m->total = memory_total(d->minor);
  m->used = memory_used(d->minor);
  m->reserved = (u64)gpu_number(d->minor, "mem_reserved", 0);
  m->free = m->total - m->used - m->reserved;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetUtilizationRates(device *d, utilization *u) {
  ENTER(d);
  NEEDS(d, "utilization");
  u->gpu = (u32)level(d->minor, "util_gpu", 0, 88, 99);
  u->memory = (u32)level(d->minor, "util_mem", 0, 40, 60);
  return NVML_SUCCESS;
}

static int celsius_of(int minor) { return (int)level(minor, "temp", 31 + minor % 5, 58, 66); }
#define SLOWDOWN_CELSIUS 89
static int too_hot(int minor) { return celsius_of(minor) >= SLOWDOWN_CELSIUS; }

API int nvmlDeviceGetTemperature(device *d, int sensor, u32 *celsius) {
  ENTER(d);
  NEEDS(d, "temperature");
  if (sensor) return NVML_INVALID_ARGUMENT;
  *celsius = (u32)celsius_of(d->minor);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetTemperatureV(device *d, temperature_v1 *t) {
  ENTER(d);
  NEEDS(d, "temperature");
  t->celsius = celsius_of(d->minor);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetTemperatureThreshold(device *d, int kind, u32 *celsius) {
  static const u32 limits[] = {92, SLOWDOWN_CELSIUS, 95, 87}; /* shutdown, slowdown, memory, GPU */
  ENTER(d);
  if (kind < 0 || kind > 3) return NVML_NOT_SUPPORTED;
  *celsius = limits[kind];
  return NVML_SUCCESS;
}

API int nvmlDeviceGetPowerUsage(device *d, u32 *milliwatts) {
  ENTER(d);
  NEEDS(d, "power");
  *milliwatts = (u32)level(d->minor, "power_mw", 70000, 480000, 640000);
  return NVML_SUCCESS;
}

/* Idle power since boot: the library keeps no memory of past load, and a counter must never run backwards. */
API int nvmlDeviceGetTotalEnergyConsumption(device *d, u64 *millijoules) {
  struct timespec now;
  ENTER(d);
  clock_gettime(CLOCK_MONOTONIC, &now);
  *millijoules = (u64)gpu_number(d->minor, "energy_mj", 70000LL * now.tv_sec);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetFanSpeed(device *d, u32 *percent) {
  char text[16];
  ENTER(d);
  if (!gpu_find(d->minor, "fan", text, sizeof text)) return NVML_NOT_SUPPORTED; /* no fans on these boards */
  *percent = (u32)atoi(text);
  return NVML_SUCCESS;
}

#define CLOCK_MEMORY 2
API int nvmlDeviceGetMaxClockInfo(device *d, int kind, u32 *mhz) {
  ENTER(d);
  *mhz = kind == CLOCK_MEMORY ? 2619 : 1980;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetClockInfo(device *d, int kind, u32 *mhz) {
  ENTER(d);
  if (kind == CLOCK_MEMORY) *mhz = (u32)gpu_number(d->minor, "clock_mem", 2619);
  else *mhz = (u32)gpu_number(d->minor, "clock_sm", too_hot(d->minor) ? 990 : busy(d->minor) ? 1980 : 345);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetCurrentClocksEventReasons(device *d, u64 *reasons) {
  ENTER(d);
  long long usual = too_hot(d->minor) ? 0x48 : busy(d->minor) ? 0 : 1; /* hardware thermal slowdown; idle */
  *reasons = (u64)gpu_number(d->minor, "clock_event_reasons", usual);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, u64 *reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(d, reasons);
}

/* ---- memory errors ------------------------------------------------------------------------------------------------ */

API int nvmlDeviceGetEccMode(device *d, u32 *current, u32 *pending) {
  ENTER(d);
  NEEDS(d, "ecc");
  *current = (u32)gpu_number(d->minor, "ecc", 1);
  *pending = (u32)gpu_number(d->minor, "ecc_pending", *current);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetTotalEccErrors(device *d, int type, int counter, u64 *count) {
  ENTER(d);
  NEEDS(d, "ecc");
  const char *key = type ? (counter ? "ecc_dbe_agg" : "ecc_dbe_vol") : (counter ? "ecc_sbe_agg" : "ecc_sbe_vol");
  *count = (u64)gpu_number(d->minor, key, 0);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMemoryErrorCounter(device *d, int type, int counter, int location, u64 *count) {
  (void)location;
  return nvmlDeviceGetTotalEccErrors(d, type, counter, count);
}

API int nvmlDeviceGetRemappedRows(device *d, u32 *correctable, u32 *uncorrectable, u32 *pending, u32 *failure) {
  ENTER(d);
  NEEDS(d, "remap");
  *correctable = (u32)gpu_number(d->minor, "remap_corr", 0);
  *uncorrectable = (u32)gpu_number(d->minor, "remap_unc", 0);
  *pending = (u32)gpu_number(d->minor, "remap_pending", 0);
  *failure = (u32)gpu_number(d->minor, "remap_failure", 0);
  return NVML_SUCCESS;
}

/* ---- NVLink and topology -------------------------------------------------------------------------------------------- */

static int links_of(int minor) { return (int)gpu_number(minor, "nvlink_links", MAX_LINKS); }

API int nvmlDeviceGetNvLinkState(device *d, u32 link, u32 *active) {
  char down[256], word[16];
  ENTER(d);
  NEEDS(d, "nvlink");
  if (link >= (u32)links_of(d->minor)) return NVML_INVALID_ARGUMENT;
  snprintf(word, sizeof word, "%u", link);
  *active = !(gpu_find(d->minor, "nvlink_down", down, sizeof down) && list_has(down, word));
  return NVML_SUCCESS;
}

API int nvmlDeviceGetNvLinkVersion(device *d, u32 link, u32 *version) {
  (void)link;
  ENTER(d);
  NEEDS(d, "nvlink");
  *version = 4;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetNvLinkErrorCounter(device *d, u32 link, int counter, u64 *count) {
  (void)link, (void)counter;
  ENTER(d);
  NEEDS(d, "nvlink");
  *count = (u64)gpu_number(d->minor, "nvlink_err", 0);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *d, u32 link, pci_info *pci) {
  ENTER(d);
  NEEDS(d, "nvlink");
  if (link >= (u32)links_of(d->minor)) return NVML_INVALID_ARGUMENT;
  memset(pci, 0, sizeof *pci);
  pci->bus = 0x05 + link % 4; /* four NVSwitches */
  pci->device_id = 0x22a310de;
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
  snprintf(pci->legacy_id, sizeof pci->legacy_id, "0000:%02X:00.0", pci->bus);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(device *d, u32 link, int *type) {
  (void)link;
  ENTER(d);
  NEEDS(d, "nvlink");
  *type = 2; /* a switch */
  return NVML_SUCCESS;
}

API int nvmlDeviceGetTopologyCommonAncestor(device *a, device *b, int *level_out) {
  ENTER(a);
  ENTER(b);
  long long left = gpu_number(a->minor, "numa", a->minor / 4), right = gpu_number(b->minor, "numa", b->minor / 4);
  *level_out = a == b ? 0 : left != right ? 50 : 40; /* same board, system, node */
  return NVML_SUCCESS;
}

API int nvmlDeviceGetP2PStatus(device *a, device *b, int capability, int *status) {
  (void)capability;
  ENTER(a);
  ENTER(b);
  *status = 0;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMigMode(device *d, u32 *current, u32 *pending) {
  ENTER(d);
  NEEDS(d, "mig");
  *current = (u32)gpu_number(d->minor, "mig", 0);
  *pending = (u32)gpu_number(d->minor, "mig_pending", *current);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMaxMigDeviceCount(device *d, u32 *count) {
  ENTER(d);
  *count = supported(d->minor, "mig") ? 7 : 0;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(device *d, u32 index, device **out) {
  (void)index, (void)out;
  ENTER(d);
  return NVML_NOT_FOUND;
}

/* ---- processes ---------------------------------------------------------------------------------------------------- */

API int nvmlDeviceGetComputeRunningProcesses_v3(device *d, u32 *count, process_info *out) {
  ENTER(d);
  u32 room = out ? *count : 0;
  *count = (u32)processes(d->minor, room, out);
  return *count > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static int no_processes(device *d, u32 *count) {
  ENTER(d);
  *count = 0;
  return NVML_SUCCESS;
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, u32 *count, process_info *out) {
  (void)out;
  return no_processes(d, count);
}

API int nvmlDeviceGetMPSComputeRunningProcesses_v3(device *d, u32 *count, process_info *out) {
  (void)out;
  return no_processes(d, count);
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

typedef struct { long offset; u64 mask[MAX_GPUS]; } event_set;
enum { EVENT_DOUBLE_BIT_ECC = 2, EVENT_XID = 8 };

static FILE *open_events(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/events", state_dir());
  return fopen(path, "re");
}

API int nvmlEventSetCreate(event_set **out) {
  if (!initialised) return NVML_UNINITIALIZED;
  *out = calloc(1, sizeof **out);
  FILE *file = open_events();
  if (file) {
    fseek(file, 0, SEEK_END);
    (*out)->offset = ftell(file);
    fclose(file);
  }
  return NVML_SUCCESS;
}

API int nvmlEventSetFree(event_set *set) {
  free(set);
  return NVML_SUCCESS;
}

API int nvmlDeviceGetSupportedEventTypes(device *d, u64 *types) {
  ENTER(d);
  *types = EVENT_DOUBLE_BIT_ECC | EVENT_XID | 0x1 | 0x10;
  return NVML_SUCCESS;
}

API int nvmlDeviceRegisterEvents(device *d, u64 types, event_set *set) {
  ENTER(d);
  NEEDS(d, "events");
  set->mask[d->minor] |= types;
  return NVML_SUCCESS;
}

static int next_event(event_set *set, event_data *out) {
  char line[128];
  FILE *file = open_events();
  if (!file) return 0;
  fseek(file, set->offset, SEEK_SET);
  while (fgets(line, sizeof line, file) && strchr(line, '\n')) {
    int minor;
    u64 data, type = 0;
    set->offset = ftell(file);
    if (sscanf(line, "xid=%d:%llu", &minor, &data) == 2) type = EVENT_XID;
    else if (sscanf(line, "dbe=%d:%llu", &minor, &data) == 2) type = EVENT_DOUBLE_BIT_ECC;
    if (!type || minor < 0 || minor >= MAX_GPUS || !(set->mask[minor] & type)) continue;
    *out = (event_data){&devices[minor], type, data, ~0u, ~0u};
    fclose(file);
    return 1;
  }
  fclose(file);
  return 0;
}

API int nvmlEventSetWait_v2(event_set *set, event_data *out, u32 timeout_ms) {
  if (!initialised) return NVML_UNINITIALIZED;
  for (u32 waited = 0;; waited += 50) {
    load();
    if (next_event(set, out)) return NVML_SUCCESS;
    for (int i = 0; i < MAX_GPUS; i++) /* the real call fails once a registered GPU is gone */
      if (set->mask[i] && lost_code(i) == NVML_GPU_IS_LOST) return NVML_GPU_IS_LOST;
    if (waited >= timeout_ms) return NVML_TIMEOUT;
    usleep(50000);
  }
}
