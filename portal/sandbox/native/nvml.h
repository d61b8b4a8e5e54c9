/* The part of NVIDIA's NVML interface that the sandbox answers; layouts and numbers as in the vendor's bindings. */
#ifndef BERTH_SANDBOX_NVML_H
#define BERTH_SANDBOX_NVML_H

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct nvml_device device;

enum {
  NVML_SUCCESS = 0, NVML_UNINITIALIZED = 1, NVML_INVALID_ARGUMENT = 2, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6,
  NVML_INSUFFICIENT_SIZE = 7, NVML_DRIVER_NOT_LOADED = 9, NVML_TIMEOUT = 10, NVML_GPU_IS_LOST = 15,
  NVML_VERSION_MISMATCH = 25,
};

typedef struct { u64 total, free, used; } memory_info;
typedef struct { u32 version; u32 pad; u64 total, reserved, free, used; } memory_info_v2;
typedef struct { u32 gpu, memory; } utilization;
typedef struct { u32 version; int sensor; int celsius; } temperature_v1;
typedef struct { char legacy_id[16]; u32 domain, bus, device, device_id, subsystem_id; char bus_id[32]; } pci_info;
typedef struct { u32 pid; u32 pad; u64 used; u32 gpu_instance, compute_instance; } process_info;
typedef struct { device *dev; u64 type, data; u32 gpu_instance, compute_instance; } event_data;

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlSystemGetDriverVersion(char *out, u32 size);
int nvmlSystemGetCudaDriverVersion(int *version);
int nvmlDeviceGetCount_v2(u32 *count);
int nvmlDeviceGetHandleByIndex_v2(u32 index, device **out);
int nvmlDeviceGetHandleByUUID(const char *uuid, device **out);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device **out);
int nvmlDeviceGetIndex(device *d, u32 *index);
int nvmlDeviceGetName(device *d, char *out, u32 size);
int nvmlDeviceGetUUID(device *d, char *out, u32 size);
int nvmlDeviceGetSerial(device *d, char *out, u32 size);
int nvmlDeviceGetVbiosVersion(device *d, char *out, u32 size);
int nvmlDeviceGetMinorNumber(device *d, u32 *minor);
int nvmlDeviceGetMemoryInfo(device *d, memory_info *m);
int nvmlDeviceGetUtilizationRates(device *d, utilization *u);
int nvmlDeviceGetTemperature(device *d, int sensor, u32 *celsius);
int nvmlDeviceGetPowerUsage(device *d, u32 *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(device *d, u32 *milliwatts);
int nvmlDeviceGetFanSpeed(device *d, u32 *percent);
int nvmlDeviceGetClockInfo(device *d, int kind, u32 *mhz);
int nvmlDeviceGetPerformanceState(device *d, int *state);
int nvmlDeviceGetPersistenceMode(device *d, u32 *mode);
int nvmlDeviceGetComputeMode(device *d, u32 *mode);
int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor);
int nvmlDeviceGetEccMode(device *d, u32 *current, u32 *pending);
int nvmlDeviceGetTotalEccErrors(device *d, int type, int counter, u64 *count);
int nvmlDeviceGetMigMode(device *d, u32 *current, u32 *pending);
int nvmlDeviceGetPciInfo_v3(device *d, pci_info *pci);
int nvmlDeviceGetNumaNodeId(device *d, u32 *node);
int nvmlDeviceGetTopologyCommonAncestor(device *a, device *b, int *level);
int nvmlDeviceGetNvLinkState(device *d, u32 link, u32 *active);
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, u32 *count, process_info *out);

#endif
