package mortise.agent;

import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/**
 * Calls what only some releases of the matrix have, so that one source compiles against all of them. Where the loaded
 * release does not have it, the command that asked for it answers with {@link NotInThisRelease}.
 */
final class Reflect {
    private Reflect() {
    }

    /** Calls the public method of that name that takes such arguments, and returns what it returns. */
    static Object call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && takes(method, arguments)) {
                try {
                    return method.invoke(target, arguments);
                } catch (InvocationTargetException e) {
                    throw e.getCause() instanceof Exception thrown ? thrown : e;
                }
            }
        }
        throw new NotInThisRelease(target, name, arguments.length);
    }

    private static boolean takes(Method method, Object[] arguments) {
        Class<?>[] parameters = method.getParameterTypes();
        if (parameters.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < arguments.length; i++) {
            if (!MethodType.methodType(parameters[i]).wrap().returnType().isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }
}
