/* SPDX-License-Identifier: MIT */
/* The simulated machine has no tracers. */
#ifndef USLUB_SIM_PLAT_PROBE_H
#define USLUB_SIM_PLAT_PROBE_H

#define plat_probe2(name, a, b)	      ((void)(a), (void)(b))
#define plat_probe3(name, a, b, c)    ((void)(a), (void)(b), (void)(c))
#define plat_probe4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))

#endif /* USLUB_SIM_PLAT_PROBE_H */
