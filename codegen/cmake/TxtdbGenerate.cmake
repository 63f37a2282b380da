# txtdb_generate(TARGET name ROOT folder [OVERLAYS folder…] [ARCHS arch…] [IFACES iface…]
#                [NAMESPACE namespace] [ON_HOLE fault|none] [OUT folder])
#
# Makes the static library TARGET from the database in ROOT: dispatch tables in C++17, generated at build time whenever a
# file of the database changes. Include its headers as "<iface>.h". The manifests of kernel images lie in OUT/manifest.
#
#   OVERLAYS   further roots, each above all before it
#   ARCHS      only these archs; all by default
#   IFACES     only these interfaces; by default every one that has a schema in ROOT
#   NAMESPACE  the C++ namespace; `dispatch` by default
#   ON_HOLE    what a declared cell without a config is: a fault, which is the default, or the answer `no kernel`
#   OUT        where the generated files go; <current binary dir>/<TARGET> by default
#
# The program is found on PATH, or given as TXTDB_EXECUTABLE. The property TXTDB_OUT of the target is OUT.

# Depfiles of every generator, with paths brought into the form that the generator uses.
cmake_policy(VERSION 3.20)

function(txtdb_generate)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET;ROOT;NAMESPACE;ON_HOLE;OUT" "OVERLAYS;ARCHS;IFACES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "txtdb_generate: unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(needed TARGET ROOT)
    if(NOT arg_${needed})
      message(FATAL_ERROR "txtdb_generate: ${needed} is missing")
    endif()
  endforeach()
  find_program(TXTDB_EXECUTABLE txtdb REQUIRED DOC "The txtdb program")

  get_filename_component(root "${arg_ROOT}" ABSOLUTE)
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}")
  if(arg_OUT)
    get_filename_component(out "${arg_OUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  set(options --lang cpp)
  foreach(overlay IN LISTS arg_OVERLAYS)
    get_filename_component(overlay "${overlay}" ABSOLUTE)
    list(APPEND options --overlay "${overlay}")
  endforeach()
  foreach(arch IN LISTS arg_ARCHS)
    list(APPEND options --arch "${arch}")
  endforeach()
  foreach(iface IN LISTS arg_IFACES)
    list(APPEND options --iface "${iface}")
  endforeach()
  if(arg_NAMESPACE)
    list(APPEND options --namespace "${arg_NAMESPACE}")
  endif()
  if(arg_ON_HOLE)
    list(APPEND options --on-hole "${arg_ON_HOLE}")
  endif()

  # A source per interface. Each holds the digests of the tables that it includes, so that a build which watches the
  # sources alone compiles what has changed and nothing else.
  set(ifaces ${arg_IFACES})
  if(NOT ifaces)
    file(GLOB schemas CONFIGURE_DEPENDS "${root}/schema/*.toml")
    foreach(schema IN LISTS schemas)
      get_filename_component(iface "${schema}" NAME_WLE)
      list(APPEND ifaces "${iface}")
    endforeach()
  endif()
  set(sources "")
  set(headers "${out}/cpp/archs.h" "${out}/cpp/support.h")
  foreach(iface IN LISTS ifaces)
    list(APPEND sources "${out}/cpp/${iface}.cpp")
    list(APPEND headers "${out}/cpp/${iface}.h")
  endforeach()

  # The depfile names its target by the path that is given here, and all inputs below by absolute paths.
  add_custom_command(
    OUTPUT "${out}/index.json"
    BYPRODUCTS ${sources} ${headers}
    COMMAND "${TXTDB_EXECUTABLE}" codegen "${root}" --out "${out}" --depfile "${out}.d" ${options}
    DEPFILE "${out}.d"
    COMMENT "Generating the dispatch tables of ${arg_TARGET}"
    VERBATIM)
  add_custom_target(${arg_TARGET}_tables DEPENDS "${out}/index.json")
  add_library(${arg_TARGET} STATIC ${sources})
  add_dependencies(${arg_TARGET} ${arg_TARGET}_tables)
  target_compile_features(${arg_TARGET} PUBLIC cxx_std_17)
  target_include_directories(${arg_TARGET} PUBLIC "${out}/cpp")
  set_target_properties(${arg_TARGET} PROPERTIES TXTDB_OUT "${out}")
endfunction()
