package org.apache.kafka.common.utils.internals;

import org.apache.kafka.common.utils.Exit.Procedure;
import org.apache.kafka.common.utils.Exit.ShutdownHookAdder;

/** The class by its name of 4.4, on that of 4.3. */
public final class Exit {
    public static void setExitProcedure(Procedure procedure) {
        org.apache.kafka.common.utils.Exit.setExitProcedure(procedure);
    }

    public static void setHaltProcedure(Procedure procedure) {
        org.apache.kafka.common.utils.Exit.setHaltProcedure(procedure);
    }

    public static void setShutdownHookAdder(ShutdownHookAdder adder) {
        org.apache.kafka.common.utils.Exit.setShutdownHookAdder(adder);
    }

    public static void addShutdownHook(String name, Runnable runnable) {
        org.apache.kafka.common.utils.Exit.addShutdownHook(name, runnable);
    }
}
