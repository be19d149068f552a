package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// source is a module that publishes schemas among its files. It is fetched by the module proxy,
// which serves any module as it once was; sum is what its content must hash to.
type source struct{ path, version, sum string }

var (
	kubernetes = source{"k8s.io/kubernetes", "v1.34.1", "h1:F3p8dtpv+i8zQoebZeK5zBqM1g9x1aIdnA5vthvcuUk="}
	keda       = source{"github.com/kedacore/keda/v2", "v2.19.0", "h1:IP3iMTwr9HkaAwPtLnhngPv74LghMf7ubLrsGLQo52M="}
	operator   = source{"github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="}
)

// custom are the custom resources that are known, by their group; the rest is Kubernetes' own.
var custom = map[string]struct {
	source
	file string // with %s for the plural
}{
	"keda.sh":               {keda, "config/crd/bases/keda.sh_%s.yaml"},
	"monitoring.coreos.com": {operator, "example/prometheus-operator-crd/monitoring.coreos.com_%s.yaml"},
}

var fetched = map[source]string{} // folders

// dir fetches the module, unless the module cache has it, and returns its folder.
func (s source) dir() (string, error) {
	if dir, ok := fetched[s]; ok {
		return dir, nil
	}
	cmd := exec.Command("go", "mod", "download", "-json", s.path+"@"+s.version)
	// outside of any module
	cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), "GO111MODULE=on", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	var got struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &got); jsonErr != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w", s.path, s.version, errors.Join(err, jsonErr))
	}
	switch {
	case got.Error != "":
		return "", errors.New(got.Error)
	case got.Sum != s.sum:
		return "", fmt.Errorf("%s@%s has the hash %s, not %s", s.path, s.version, got.Sum, s.sum)
	}
	fetched[s] = got.Dir
	return got.Dir, nil
}

var compiled = map[string]*jsonschema.Schema{} // by API version and kind

// schemaOf returns the schema of a kind.
func schemaOf(apiVersion, kind string) (*jsonschema.Schema, error) {
	key := apiVersion + " " + kind
	if c, ok := compiled[key]; ok {
		return c, nil
	}
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	load := func() (any, string, error) { return builtin(group, version, kind) }
	if c, ok := custom[group]; ok {
		load = func() (any, string, error) { return crd(c.source, c.file, version, kind) }
	}
	doc, at, err := load()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	forbidUnknown(doc)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:///doc", doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile("mem:///doc" + at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	compiled[key] = schema
	return schema, nil
}

// builtin reads the OpenAPI document of a group and version, and finds the kind in it.
func builtin(group, version, kind string) (doc any, at string, err error) {
	dir, err := kubernetes.dir()
	if err != nil {
		return nil, "", err
	}
	name := "api__" + version
	if group != "" {
		if !strings.Contains(group, ".") && group != "apps" && group != "batch" && group != "autoscaling" && group != "policy" {
			return nil, "", fmt.Errorf("the group %q is not known", group)
		}
		name = "apis__" + group + "__" + version
	}
	f, err := os.Open(filepath.Join(dir, "api/openapi-spec/v3", name+"_openapi.json"))
	if err != nil {
		return nil, "", errors.New("there is no such version of the API")
	}
	defer func() { _ = f.Close() }()
	if doc, err = jsonschema.UnmarshalJSON(f); err != nil {
		return nil, "", err
	}
	all, _ := child(doc, "components", "schemas").(map[string]any)
	for name, s := range all {
		list, _ := child(s, "x-kubernetes-group-version-kind").([]any)
		for _, gvk := range list {
			if child(gvk, "group") == group && child(gvk, "version") == version && child(gvk, "kind") == kind {
				return doc, "#/components/schemas/" + name, nil
			}
		}
	}
	return nil, "", errors.New("there is no such kind")
}

// crd reads the definition of a custom resource.
func crd(from source, file, version, kind string) (doc any, at string, err error) {
	dir, err := from.dir()
	if err != nil {
		return nil, "", err
	}
	text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf(file, strings.ToLower(kind)+"s")))
	if err != nil {
		return nil, "", errors.New("there is no such kind")
	}
	var definition map[string]any
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return nil, "", err
	}
	versions, _ := child(definition, "spec", "versions").([]any)
	for _, v := range versions {
		if child(v, "name") == version {
			schema, err := asJSON(child(v, "schema", "openAPIV3Schema"))
			return schema, "", err
		}
	}
	return nil, "", errors.New("there is no such version")
}

func child(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// asJSON is the value as JSON has it: the validator knows no YAML integers.
func asJSON(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
}

// forbidUnknown makes every object whose properties are listed take no others, as `kubectl apply
// --validate=strict` does.
func forbidUnknown(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, listed := v["properties"].(map[string]any)
		_, more := v["additionalProperties"]
		if keep, _ := v["x-kubernetes-preserve-unknown-fields"].(bool); listed && !more && !keep {
			v["additionalProperties"] = false
		}
		for _, c := range v {
			forbidUnknown(c)
		}
	case []any:
		for _, c := range v {
			forbidUnknown(c)
		}
	}
}
