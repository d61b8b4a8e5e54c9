/* The fields that nvidia-smi can query: each reads one value of one GPU as text and returns the NVML code. */
#include "smi.h"
#include <stdio.h>

#define MIB (1ULL << 20)

static int f_index(u32 index, device *d, char *o, size_t n) { (void)d; snprintf(o, n, "%u", index); return 0; }
int f_name(u32 i, device *d, char *o, size_t n) { (void)i; return nvmlDeviceGetName(d, o, (u32)n); }
int f_uuid(u32 i, device *d, char *o, size_t n) { (void)i; return nvmlDeviceGetUUID(d, o, (u32)n); }
static int f_serial(u32 i, device *d, char *o, size_t n) { (void)i; return nvmlDeviceGetSerial(d, o, (u32)n); }
static int f_vbios(u32 i, device *d, char *o, size_t n) { (void)i; return nvmlDeviceGetVbiosVersion(d, o, (u32)n); }
static int f_driver(u32 i, device *d, char *o, size_t n) { (void)i, (void)d; return nvmlSystemGetDriverVersion(o, (u32)n); }

static int f_count(u32 i, device *d, char *o, size_t n) {
  (void)i, (void)d;
  u32 count = 0;
  int code = nvmlDeviceGetCount_v2(&count);
  snprintf(o, n, "%u", count);
  return code;
}

int f_bus(u32 i, device *d, char *o, size_t n) {
  (void)i;
  pci_info pci;
  int code = nvmlDeviceGetPciInfo_v3(d, &pci);
  if (!code) snprintf(o, n, "%s", pci.bus_id);
  return code;
}

static int memory_field(device *d, int which, char *o, size_t n) {
  memory_info m;
  int code = nvmlDeviceGetMemoryInfo(d, &m);
  if (!code) snprintf(o, n, "%llu", (which == 0 ? m.total : which == 1 ? m.used : m.free) / MIB);
  return code;
}

int f_total(u32 i, device *d, char *o, size_t n) { (void)i; return memory_field(d, 0, o, n); }
int f_used(u32 i, device *d, char *o, size_t n) { (void)i; return memory_field(d, 1, o, n); }
static int f_free(u32 i, device *d, char *o, size_t n) { (void)i; return memory_field(d, 2, o, n); }

static int utilization_field(device *d, int memory, char *o, size_t n) {
  utilization u;
  int code = nvmlDeviceGetUtilizationRates(d, &u);
  if (!code) snprintf(o, n, "%u", memory ? u.memory : u.gpu);
  return code;
}

int f_util(u32 i, device *d, char *o, size_t n) { (void)i; return utilization_field(d, 0, o, n); }
static int f_util_mem(u32 i, device *d, char *o, size_t n) { (void)i; return utilization_field(d, 1, o, n); }

int f_temp(u32 i, device *d, char *o, size_t n) {
  (void)i;
  u32 celsius = 0;
  int code = nvmlDeviceGetTemperature(d, 0, &celsius);
  snprintf(o, n, "%u", celsius);
  return code;
}

static int watts(int code, u32 milliwatts, char *o, size_t n) {
  snprintf(o, n, "%.2f", milliwatts / 1000.0);
  return code;
}

int f_power(u32 i, device *d, char *o, size_t n) {
  (void)i;
  u32 mw = 0;
  int code = nvmlDeviceGetPowerUsage(d, &mw);
  return watts(code, mw, o, n);
}

static int f_limit(u32 i, device *d, char *o, size_t n) {
  (void)i;
  u32 mw = 0;
  int code = nvmlDeviceGetEnforcedPowerLimit(d, &mw);
  return watts(code, mw, o, n);
}

static int clock_field(device *d, int kind, char *o, size_t n) {
  u32 mhz = 0;
  int code = nvmlDeviceGetClockInfo(d, kind, &mhz);
  snprintf(o, n, "%u", mhz);
  return code;
}

static int f_clock(u32 i, device *d, char *o, size_t n) { (void)i; return clock_field(d, 1, o, n); }
static int f_clock_mem(u32 i, device *d, char *o, size_t n) { (void)i; return clock_field(d, 2, o, n); }

static int f_fan(u32 i, device *d, char *o, size_t n) {
  (void)i;
  u32 percent = 0;
  int code = nvmlDeviceGetFanSpeed(d, &percent);
  snprintf(o, n, "%u", percent);
  return code;
}

static int f_pstate(u32 i, device *d, char *o, size_t n) {
  (void)i;
  int state = 0, code = nvmlDeviceGetPerformanceState(d, &state);
  snprintf(o, n, "P%d", state);
  return code;
}

static int f_persistence(u32 i, device *d, char *o, size_t n) {
  (void)i;
  u32 mode = 0;
  int code = nvmlDeviceGetPersistenceMode(d, &mode);
  snprintf(o, n, "%s", mode ? "Enabled" : "Disabled");
  return code;
}

static int f_compute_mode(u32 i, device *d, char *o, size_t n) {
  static const char *names[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
  (void)i;
  u32 mode = 0;
  int code = nvmlDeviceGetComputeMode(d, &mode);
  snprintf(o, n, "%s", names[mode % 4]);
  return code;
}

static int f_capability(u32 i, device *d, char *o, size_t n) {
  (void)i;
  int major = 0, minor = 0, code = nvmlDeviceGetCudaComputeCapability(d, &major, &minor);
  snprintf(o, n, "%d.%d", major, minor);
  return code;
}

static int f_ecc_mode(u32 i, device *d, char *o, size_t n) {
  (void)i;
  u32 current = 0, pending = 0;
  int code = nvmlDeviceGetEccMode(d, &current, &pending);
  snprintf(o, n, "%s", current ? "Enabled" : "Disabled");
  return code;
}

static int ecc_field(device *d, int type, char *o, size_t n) {
  u64 count = 0;
  int code = nvmlDeviceGetTotalEccErrors(d, 1, type, &count);
  snprintf(o, n, "%llu", count);
  return code;
}

static int f_ecc_sbe(u32 i, device *d, char *o, size_t n) { (void)i; return ecc_field(d, 0, o, n); }
static int f_ecc_dbe(u32 i, device *d, char *o, size_t n) { (void)i; return ecc_field(d, 1, o, n); }

static int f_mig(u32 i, device *d, char *o, size_t n) {
  (void)i;
  u32 current = 0, pending = 0;
  int code = nvmlDeviceGetMigMode(d, &current, &pending);
  snprintf(o, n, "%s", current ? "Enabled" : "Disabled");
  return code;
}

const field gpu_fields[] = {
  {"index", "", "index", f_index}, {"count", "", "attached_gpus", f_count}, {"name", "", "product_name", f_name},
  {"gpu_name", "", "product_name", f_name}, {"uuid", "", "uuid", f_uuid}, {"gpu_uuid", "", "uuid", f_uuid},
  {"serial", "", "serial", f_serial}, {"gpu_serial", "", "serial", f_serial}, {"vbios_version", "", "vbios_version", f_vbios},
  {"pci.bus_id", "", "pci_bus_id", f_bus}, {"gpu_bus_id", "", "pci_bus_id", f_bus},
  {"driver_version", "", "driver_version", f_driver}, {"persistence_mode", "", "persistence_mode", f_persistence},
  {"compute_mode", "", "compute_mode", f_compute_mode}, {"compute_cap", "", "compute_cap", f_capability},
  {"pstate", "", "performance_state", f_pstate}, {"fan.speed", "%", "fan_speed", f_fan},
  {"memory.total", "MiB", "memory_total", f_total}, {"memory.used", "MiB", "memory_used", f_used},
  {"memory.free", "MiB", "memory_free", f_free}, {"utilization.gpu", "%", "gpu_util", f_util},
  {"utilization.memory", "%", "memory_util", f_util_mem}, {"temperature.gpu", "", "gpu_temp", f_temp},
  {"power.draw", "W", "power_draw", f_power}, {"power.limit", "W", "power_limit", f_limit},
  {"clocks.sm", "MHz", "sm_clock", f_clock}, {"clocks.current.sm", "MHz", "sm_clock", f_clock},
  {"clocks.mem", "MHz", "mem_clock", f_clock_mem}, {"ecc.mode.current", "", "current_ecc", f_ecc_mode},
  {"ecc.errors.corrected.volatile.total", "", "volatile_corrected", f_ecc_sbe},
  {"ecc.errors.uncorrected.volatile.total", "", "volatile_uncorrected", f_ecc_dbe},
  {"mig.mode.current", "", "current_mig", f_mig},
};
const int gpu_field_count = sizeof gpu_fields / sizeof *gpu_fields;

void text_of(const field *f, u32 index, device *d, int units, char *out, size_t size) {
  char value[256] = "";
  int code = f->read(index, d, value, sizeof value);
  if (code == NVML_NOT_SUPPORTED) snprintf(out, size, "[N/A]");
  else if (code) snprintf(out, size, "[%s]", nvmlErrorString(code)), status = code == NVML_GPU_IS_LOST ? EXIT_LOST : code;
  else snprintf(out, size, "%s%s%s", value, units && *f->unit ? " " : "", units ? f->unit : "");
}
