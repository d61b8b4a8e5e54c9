/* libnvidia-ml.so.1 of a sandbox node, first part: library, devices, readings. What it answers from: see state.h. */
#define _GNU_SOURCE
#include "state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
